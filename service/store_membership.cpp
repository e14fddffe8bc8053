// The membership machine's durable state as rows: records and changes are FlatBuffers, the rest are single values.
#include "base/overload.h"
#include "service/store.h"
#include "wire/codec.h"

namespace vrampool::service {
namespace {

using membership::DurableState;

Status put_blob(Database& db, const char* key, std::span<const std::byte> bytes) {
  return db.prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)")
      .bind(1, std::string_view(key))
      .bind_blob(2, bytes)
      .run();
}

template <class T>
Status load_blob(Database& db, const char* key, typename T::NativeTableType& out) {
  Statement s = db.prepare("SELECT value FROM meta WHERE key = ?");
  s.bind(1, std::string_view(key));
  VP_TRY(found, s.step());
  if (!found) return {};
  VP_TRY(value, wire::decode<T>(s.blob(0), key));
  out = std::move(value);
  return {};
}

// Numbers of one value, as text: "3 7 12".
std::string words(std::initializer_list<std::uint64_t> numbers) {
  std::string out;
  for (const std::uint64_t n : numbers) out += (out.empty() ? "" : " ") + std::to_string(n);
  return out;
}
std::array<std::uint64_t, 5> parse_words(const std::string& text) {
  std::array<std::uint64_t, 5> out{};
  std::size_t at = 0;
  for (std::uint64_t& n : out) {
    if (at >= text.size()) break;
    n = std::strtoull(text.c_str() + at, nullptr, 10);
    at = text.find(' ', at);
    if (at == std::string::npos) break;
    ++at;
  }
  return out;
}

std::int64_t signed_of(std::uint64_t v) { return static_cast<std::int64_t>(v); }

Statement& bind_id(Statement& s, const SegmentId& id) {
  return s.bind(1, static_cast<std::int64_t>(id.member.value))
      .bind(2, signed_of(id.life.value))
      .bind(3, signed_of(id.count));
}
Statement& bind_version(Statement& s, const RecordVersion& v) {
  return s.bind(1, signed_of(v.term.count))
      .bind(2, static_cast<std::int64_t>(v.term.member.value))
      .bind(3, signed_of(v.seq));
}

Status load_records(Database& db, DurableState& state) {
  Statement s = db.prepare("SELECT body FROM records");
  while (true) {
    VP_TRY(row, s.step());
    if (!row) return {};
    VP_TRY(record, wire::decode<wire::Record>(s.blob(0), "stored record"));
    const SegmentId id = record.id;
    state.records[id] = std::make_shared<const wire::RecordT>(std::move(record));
  }
}

Status load_changes(Database& db, DurableState& state) {
  Statement s = db.prepare("SELECT body FROM changes ORDER BY term_count, term_member, seq");
  while (true) {
    VP_TRY(row, s.step());
    if (!row) return {};
    VP_TRY(change, wire::decode<wire::Change>(s.blob(0), "stored change"));
    state.pending.push_back(std::make_shared<const wire::ChangeT>(std::move(change)));
  }
}

}  // namespace

Result<DurableState> Store::load() {
  DurableState state;
  VP_TRY(node, text("node"));
  VP_TRY(identity, text("identity"));
  VP_TRY(promise, text("promise"));
  VP_TRY(committed, text("committed"));
  if (const auto id = parse_hex128(node)) state.node = NodeId{(*id)[0], (*id)[1]};
  const auto who = parse_words(identity);
  state.pool = PoolId{who[0], who[1]};
  state.self = MemberNo{static_cast<std::uint16_t>(who[2])};
  const auto p = parse_words(promise);
  state.promise = Term{p[0], MemberNo{static_cast<std::uint16_t>(p[1])}};
  const auto c = parse_words(committed);
  state.committed = RecordVersion{Term{c[0], MemberNo{static_cast<std::uint16_t>(c[1])}}, c[2]};
  VP_CHECK(load_blob<wire::Roster>(db_, "roster", state.roster));
  VP_CHECK(load_blob<wire::View>(db_, "view", state.view));
  VP_CHECK(load_records(db_, state));
  VP_CHECK(load_changes(db_, state));
  return state;
}

Status Store::apply(const membership::Persist& order) {
  return db_.transaction([&]() -> Status {
    for (const membership::DurableOp& op : order.ops) VP_CHECK(apply_op(op));
    return {};
  });
}

Status Store::apply_op(const membership::DurableOp& op) {
  using namespace membership;
  return std::visit(
      Overload{
          [&](const SetIdentity& o) {
            return put("identity", words({o.pool.hi, o.pool.lo, o.self.value}));
          },
          [&](const SetPromise& o) {
            return put("promise", words({o.promise.count, o.promise.member.value}));
          },
          [&](const SetCommitted& o) {
            return put("committed", words({o.version.term.count, o.version.term.member.value, o.version.seq}));
          },
          [&](const SetRoster& o) { return put_blob(db_, "roster", wire::encode<wire::Roster>(o.roster)); },
          [&](const SetView& o) { return put_blob(db_, "view", wire::encode<wire::View>(o.view)); },
          [&](const PutRecord& o) {
            Statement s = db_.prepare("INSERT OR REPLACE INTO records VALUES(?, ?, ?, ?)");
            const auto body = wire::encode<wire::Record>(*o.record);
            return bind_id(s, o.record->id).bind_blob(4, body).run();
          },
          [&](const EraseRecord& o) {
            Statement s = db_.prepare("DELETE FROM records WHERE member = ? AND life = ? AND count = ?");
            return bind_id(s, o.id).run();
          },
          [&](const PutChange& o) {
            Statement s = db_.prepare("INSERT OR REPLACE INTO changes VALUES(?, ?, ?, ?)");
            const auto body = wire::encode<wire::Change>(*o.change);
            return bind_version(s, o.change->version).bind_blob(4, body).run();
          },
          [&](const EraseChanges& o) {
            Statement s = db_.prepare("DELETE FROM changes WHERE (term_count, term_member, seq) <= (?, ?, ?)");
            return bind_version(s, o.through).run();
          },
          [&](const EraseAllChanges&) { return db_.execute("DELETE FROM changes"); },
      },
      op);
}

}  // namespace vrampool::service
