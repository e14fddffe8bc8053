// Two images of the registry, committed and tail, and the changes between them.
#include "membership/registry.h"

#include <algorithm>

#include "base/assert.h"
#include "base/mark.h"

namespace vrampool::membership {

Registry::Registry(const DurableState& state)
    : committed_version_(state.committed),
      position_(state.committed),
      committed_{state.records, state.roster, state.view},
      tail_(committed_) {
  for (const ChangeRef& change : state.pending) {
    apply_to(tail_, *change);
    position_ = change->version;
    pending_.push_back(change);
  }
  for (const auto& [id, record] : committed_.records)
    if (is_published(*record) && !record->name.empty()) published_[record->name] = id;
}

void Registry::apply_to(Image& image, const wire::ChangeT& change) {
  for (const auto& key : change.erased) image.records.erase(key->id);
  for (const auto& record : change.records) image.records[record->id] = std::make_shared<const wire::RecordT>(*record);
  if (change.roster) image.roster = *change.roster;
  if (change.view) image.view = *change.view;
}

void Registry::append(ChangeRef change, std::vector<DurableOp>& ops) {
  VP_ASSERT(change->version > position_);
  apply_to(tail_, *change);
  position_ = change->version;
  ops.push_back(PutChange{change});
  pending_.push_back(std::move(change));
}

std::size_t Registry::committable(RecordVersion through) const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (pending_[i]->version <= through) {
      count = i + 1;
    } else if (pending_[i]->reset) {
      VP_MARK(commit_stops_before_reset);
      return 0;
    }
  }
  return count;
}

Committed Registry::commit(RecordVersion through, std::vector<DurableOp>& ops) {
  Committed result;
  RecordMap before;  // of every record touched; null: was not there
  const auto note = [&](const SegmentId& id) {
    const auto at = committed_.records.find(id);
    before.try_emplace(id, at == committed_.records.end() ? nullptr : at->second);
  };
  const std::size_t count = committable(through);
  if (count == 0) return result;
  const wire::RosterT roster = committed_.roster;
  const wire::ViewT view = committed_.view;
  for (std::size_t i = 0; i < count; ++i) {
    const ChangeRef change = pending_.front();
    pending_.pop_front();
    for (const auto& key : change->erased) note(key->id);
    for (const auto& record : change->records) note(record->id);
    apply_to(committed_, *change);
    committed_version_ = change->version;
  }
  result.roster = committed_.roster != roster;
  result.members =
      committed_.roster.version != roster.version || committed_.roster.entries.size() != roster.entries.size();
  result.view = committed_.view != view;
  settle(before, result, ops);
  return result;
}

void Registry::settle(const RecordMap& before, Committed& result, std::vector<DurableOp>& ops) {
  for (const auto& [id, old] : before) {
    const auto now = committed_.records.find(id);
    if (now == committed_.records.end()) {
      if (!old) continue;
      result.erased.push_back(id);
      ops.push_back(EraseRecord{id});
    } else if (!old || *old != *now->second) {
      result.applied.push_back(now->second);
      ops.push_back(PutRecord{now->second});
    }
  }
  index_names(before);
  if (result.roster) ops.push_back(SetRoster{committed_.roster});
  if (result.view) ops.push_back(SetView{committed_.view});
  ops.push_back(EraseChanges{committed_version_});
  ops.push_back(SetCommitted{committed_version_});
}

void Registry::index_names(const RecordMap& before) {
  for (const auto& [id, old] : before) {
    if (!old) continue;
    const auto at = published_.find(old->name);
    if (at != published_.end() && at->second == id) published_.erase(at);
  }
  for (const auto& [id, old] : before) {
    const auto now = committed_.records.find(id);
    if (now != committed_.records.end() && is_published(*now->second) && !now->second->name.empty())
      published_[now->second->name] = id;
  }
}

RecordRef Registry::published(std::string_view name) const {
  const auto at = published_.find(name);
  return at == published_.end() ? nullptr : committed_.records.at(at->second);
}

RecordRef Registry::reserved(std::string_view name) const {
  for (const auto& [id, record] : committed_.records)
    if (record->state == wire::SegmentState::creating && record->name == name) return record;
  return nullptr;
}

RecordRef Registry::tail_find(const SegmentId& id) const {
  const auto at = tail_.records.find(id);
  return at == tail_.records.end() ? nullptr : at->second;
}

wire::DigestT Registry::digest() const {
  wire::DigestT digest;
  digest.position = position_;
  for (const auto& [id, record] : tail_.records) {
    auto line = std::make_unique<wire::DigestLineT>();
    line->id = id;
    line->version = record->version;
    digest.lines.push_back(std::move(line));
  }
  return digest;
}

bool is_published(const wire::RecordT& record) {
  return record.state == wire::SegmentState::sealed || record.state == wire::SegmentState::coherent;
}

std::vector<std::uint16_t> hosts_of(const wire::RecordT& record, const wire::RosterT& roster) {
  std::set<std::uint16_t> hosts(record.tombstone_waits_for.begin(), record.tombstone_waits_for.end());
  for (const auto& piece : record.pieces) hosts.insert(piece->node);
  std::vector<std::uint16_t> known;
  for (const std::uint16_t host : hosts)
    if (find_member(roster, MemberNo{host}) != nullptr) known.push_back(host);
  return known;
}

void take_parts(wire::RecordT& into, const wire::RecordT& from) {
  wire::RecordT copy = from;
  into.pieces = std::move(copy.pieces);
  into.tensors = std::move(copy.tensors);
  into.files = std::move(copy.files);
  into.ranges = std::move(copy.ranges);
  into.format = std::move(copy.format);
}

wire::RecordT tombstone_of(const wire::RecordT& record, const wire::RosterT& roster) {
  wire::RecordT stone;
  stone.id = record.id;
  stone.state = wire::SegmentState::deleted;
  stone.kind = record.kind;
  stone.name = record.name;
  stone.principal = record.principal;
  stone.mode = record.mode;
  stone.bytes = record.bytes;
  stone.address = record.address;
  stone.creator = record.creator;
  stone.created_unix_ms = record.created_unix_ms;
  stone.tombstone_waits_for = hosts_of(record, roster);
  return stone;
}

std::size_t approximate_bytes(const wire::RecordT& record) {
  std::size_t bytes = 512 + record.name.size() + record.pieces.size() * 96 + record.ranges.size() * 48;
  for (const auto& tensor : record.tensors)
    bytes += 96 + tensor->name.size() + tensor->type_name.size() + 8 * tensor->shape.size();
  for (const auto& file : record.files) bytes += 96 + file->name.size() + file->path.size();
  return bytes;
}

}  // namespace vrampool::membership
