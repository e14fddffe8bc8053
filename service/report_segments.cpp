// Reports on segments.
#include <boost/json.hpp>
#include <set>

#include "service/report.h"
#include "service/sha256.h"

namespace vrampool::service {

namespace json = boost::json;

namespace {

bool is_alive(const Node& node, std::uint16_t member) {
  for (const auto& v : node.machine().view().members)
    if (v->member == member) return v->state == wire::MemberState::alive;
  return false;
}

// Lost: on a dead member, or here and not there. Other members say what they miss in total (missing_bytes of `nodes`).
bool is_lost(const Scene& s, const wire::RecordT& r, const wire::PieceT& p) {
  if (r.state == wire::SegmentState::deleted) return false;
  if (p.node == s.node->self().member.value) return s.node->pieces().state_of({r.id, p.ordinal}).empty();
  return !is_alive(*s.node, p.node);
}

json::array nodes_of(const Scene& s, const wire::RecordT& r, std::uint64_t offset, std::uint64_t bytes) {
  std::set<std::uint16_t> members;
  for (const auto& p : r.pieces)
    if (p->offset < offset + bytes && p->offset + p->bytes > offset) members.insert(p->node);
  json::array out;
  for (const std::uint16_t member : members) out.push_back(json::value(s.node->members().name_of(MemberNo{member})));
  return out;
}

json::object summary(const Scene& s, const wire::RecordT& r) {
  std::uint64_t lost = 0;
  for (const auto& p : r.pieces) lost += is_lost(s, r, *p) ? p->bytes : 0;
  return json::object{{"name", r.name},
                      {"id", to_text(r.id)},
                      {"state", wire::EnumNameSegmentState(r.state)},
                      {"kind", wire::EnumNameSegmentKind(r.kind)},
                      {"bytes", r.bytes},
                      {"tensors", r.tensors.size()},
                      {"format", r.format},
                      {"layout", wire::EnumNameLayoutMode(r.layout)},
                      {"nodes", nodes_of(s, r, 0, r.bytes)},
                      {"lost_bytes", lost},
                      {"created_unix_ms", r.created_unix_ms},
                      {"principal", r.principal},
                      {"mode", fmt::format("{:04o}", r.mode)}};
}

json::array tensors_of(const Scene& s, const wire::RecordT& r) {
  json::array out;
  for (const auto& t : r.tensors) {
    json::array shape;
    for (const std::uint64_t n : t->shape) shape.push_back(json::value(n));
    out.push_back(json::object{{"name", t->name},
                               {"type_name", t->type_name},
                               {"shape", shape},
                               {"offset", t->offset},
                               {"bytes", t->bytes},
                               {"nodes", nodes_of(s, r, t->offset, t->bytes)}});
  }
  return out;
}

json::array users_of(const Scene& s, const SegmentId& id) {
  json::array out;
  for (const auto& session : s.sessions.all()) {
    std::size_t views = 0;
    for (const auto& [view, segment] : session->views) views += segment == id;
    if (views == 0 && !session->creating.contains(id)) continue;
    out.push_back(json::object{{"client", session->client.value},
                               {"program", session->program},
                               {"pid", session->pid},
                               {"principal", session->who.principal},
                               {"views", views}});
  }
  return out;
}

}  // namespace

json::array segments_report(const Scene& s, const Heard&, const std::string& prefix, const Who& who) {
  json::array out;
  if (!s.node) return out;
  std::vector<membership::RecordRef> records = s.node->machine().records();
  std::erase_if(records, [&](const auto& r) {
    return r->state == wire::SegmentState::deleted || !r->name.starts_with(prefix) || !may_read(who, *r);
  });
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return std::tie(a->name, a->id) < std::tie(b->name, b->id); });
  for (const auto& r : records) out.push_back(summary(s, *r));
  return out;
}

json::object segment_report(const Scene& s, const Heard&, const wire::RecordT& r) {
  json::object o = summary(s, r);
  o["tensors"] = tensors_of(s, r);
  o["address"] = fmt::format("0x{:016x}", r.address);
  json::array files, pieces;
  for (const auto& f : r.files)
    files.push_back(
        json::object{{"name", f->name}, {"path", f->path}, {"bytes", f->bytes}, {"sha256", hex_text(f->sha256)}});
  for (const auto& p : r.pieces)
    pieces.push_back(json::object{{"ordinal", p->ordinal},
                                  {"node", s.node->members().name_of(MemberNo{p->node})},
                                  {"offset", p->offset},
                                  {"bytes", p->bytes},
                                  {"copy", p->copy},
                                  {"sha256", hex_text(p->sha256)},
                                  {"state", is_lost(s, r, *p) ? "lost" : wire::EnumNameSegmentState(r.state)}});
  o["files"] = std::move(files);
  o["pieces"] = std::move(pieces);
  o["users"] = users_of(s, r.id);
  return o;
}

}  // namespace vrampool::service
