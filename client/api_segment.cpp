// The C interface: segments, their tensors, and the calls about ranges of them.
#include "client/registry.h"

using namespace vrampool;
using namespace vrampool::client;

namespace {

Result<std::uint64_t> add_segment(const std::shared_ptr<Session>& session, std::unique_ptr<wire::RecordT> record) {
  if (record == nullptr) return error(VP_CORRUPT, "the daemon answered without a record");
  auto segment = std::make_shared<Segment>(session, std::move(*record));
  session->add_segment(segment);
  return registry().segments.add(segment);
}

Status abort_segment(Segment& segment) {
  wire::AbortSegmentT request;
  request.id = segment.id();
  auto done = segment.session().ask<wire::DoneT>(std::move(request), segment.session().repeatable());
  return done ? Status{} : done.take_error();
}

vp_tensor tensor_out(const wire::TensorT& t) {
  vp_tensor out{};
  out.dtype = static_cast<vp_dtype>(t.dtype);
  out.rank = static_cast<std::uint32_t>(std::min<std::size_t>(t.shape.size(), VP_DIMENSIONS_MAX));
  std::copy_n(t.shape.begin(), out.rank, out.shape);
  out.offset = t.offset;
  out.bytes = t.bytes;
  put(out.name, t.name);
  put(out.type_name, t.type_name);
  return out;
}

Result<std::unique_ptr<wire::TensorT>> tensor_in(const vp_tensor& given) {
  VP_TRY(t, input(&given, "vp_tensor"));
  if (t.rank > VP_DIMENSIONS_MAX)
    return error(VP_INVALID, "a tensor has {} dimensions, {} can be", t.rank, VP_DIMENSIONS_MAX);
  auto out = std::make_unique<wire::TensorT>();
  out->name = std::string(t.name, ::strnlen(t.name, sizeof t.name));
  out->type_name = std::string(t.type_name, ::strnlen(t.type_name, sizeof t.type_name));
  out->dtype = static_cast<wire::Dtype>(t.dtype);
  out->shape.assign(t.shape, t.shape + t.rank);
  out->offset = t.offset;
  out->bytes = t.bytes;
  return out;
}

// The caller's array has the caller's element size.
Status tensors_in(const vp_create_options& o, wire::CreateSegmentT& request) {
  if (o.tensor_count > kTensorsPerSegmentMax) return error(VP_INVALID, "{} tensors are too many", o.tensor_count);
  const auto* at = reinterpret_cast<const std::byte*>(o.tensors);
  for (std::uint64_t i = 0; i < o.tensor_count; ++i) {
    const auto* given = reinterpret_cast<const vp_tensor*>(at + i * o.tensors->struct_size);
    VP_TRY(tensor, tensor_in(*given));
    request.tensors.push_back(std::move(tensor));
  }
  return {};
}

Result<wire::CreateSegmentT> create_request(const char* name, const vp_create_options* given) {
  VP_CHECK(need(given != nullptr, "vp_create_options"));
  VP_TRY(o, input(given, "vp_create_options"));
  if (o.bytes == 0) return error(VP_INVALID, "a segment needs at least one byte");
  wire::CreateSegmentT request;
  request.name = name;
  request.bytes = (o.bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  request.kind = wire::SegmentKind::sealed;
  request.placement = o.placement != nullptr ? o.placement : "spread";
  for (std::uint32_t i = 0; o.nodes != nullptr && i < o.node_count; ++i) request.nodes.emplace_back(o.nodes[i]);
  request.mode = static_cast<std::uint16_t>(o.mode == 0 ? 0644 : o.mode);
  request.copies = static_cast<std::uint8_t>(std::max(o.copies, 1u));
  if (o.tensors != nullptr) VP_CHECK(tensors_in(o, request));
  return request;
}

Status order(Session& session, wire::LocalBodyUnion request) {
  VP_TRY(answer, session.ask_envelope(std::move(request), session.once()));
  return status_of(answer.body);
}

// A range request about an open segment: the segment, or what is wrong with it.
Result<std::shared_ptr<Segment>> range_of(vp_segment handle, std::uint64_t offset, std::uint64_t bytes) {
  VP_TRY(segment, find_to_block(registry().segments, handle.id));
  VP_CHECK(segment->check_range(offset, bytes));
  return segment;
}

Status pin(Segment& segment, PinnedRange range, bool unpin) {
  wire::PinRangeT request;
  request.id = segment.id();
  request.offset = range.offset;
  request.bytes = range.bytes;
  request.unpin = unpin;
  auto done = segment.session().ask<wire::DoneT>(std::move(request), segment.session().patient());
  return by_id(segment, done ? Status{} : done.take_error());
}

}  // namespace

extern "C" {

vp_status vp_open(vp_session session, const char* name, vp_segment* segment) {
  return guarded([&]() -> Status {
    VP_CHECK(need(name != nullptr && segment != nullptr, "name or segment"));
    VP_TRY(s, find_to_block(registry().sessions, session.id));
    wire::OpenSegmentT request;
    request.name = name;
    if (request.name.empty()) return error(VP_INVALID, "the name of a segment cannot be empty");
    VP_TRY(opened, s->ask<wire::OpenedT>(std::move(request), s->repeatable()));
    VP_TRY(id, add_segment(s, std::move(opened.record)));
    segment->id = id;
    return {};
  });
}

vp_status vp_close(vp_segment segment) {
  return guarded([&]() -> Status {
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    VP_CHECK(registry().segments.take(segment.id));
    for (const PinnedRange& range : s->pins()) {
      if (!pin(*s, range, true)) break;  // a daemon that is gone has forgotten them all
    }
    return s->state() == wire::SegmentState::creating ? abort_segment(*s) : Status{};
  });
}

vp_status vp_segment_status(vp_segment segment, vp_segment_info* info) {
  return guarded([&]() -> Status {
    VP_TRY(s, find(registry().segments, segment.id));
    const wire::RecordT& r = s->record();
    vp_segment_info out{};
    out.state = static_cast<vp_segment_state>(s->state());
    out.layout = static_cast<vp_layout>(r.layout);
    out.pieces = static_cast<std::uint32_t>(r.pieces.size());
    out.id_member = r.id.member.value;
    out.id_life = r.id.life.value;
    out.id_count = r.id.count;
    out.address = r.address;
    out.bytes = r.bytes;
    out.tensors = r.tensors.size();
    put(out.name, r.name);
    put(out.format, r.format);
    return output(info, out, "vp_segment_info");
  });
}

vp_status vp_tensor_at(vp_segment segment, uint64_t index, vp_tensor* tensor) {
  return guarded([&]() -> Status {
    VP_TRY(s, find(registry().segments, segment.id));
    const auto& tensors = s->record().tensors;
    if (index >= tensors.size())
      return error(VP_INVALID, "{} has {} tensors, not {}", s->record().name, tensors.size(), index + 1);
    return output(tensor, tensor_out(*tensors[index]), "vp_tensor");
  });
}

vp_status vp_tensor_find(vp_segment segment, const char* name, vp_tensor* tensor) {
  return guarded([&]() -> Status {
    VP_CHECK(need(name != nullptr, "name"));
    VP_TRY(s, find(registry().segments, segment.id));
    const std::int64_t index = s->tensor_index(name);
    if (index < 0) return error(VP_NOT_FOUND, "{} has no tensor named {}", s->record().name, name);
    return output(tensor, tensor_out(*s->record().tensors[static_cast<std::size_t>(index)]), "vp_tensor");
  });
}

vp_status vp_create(vp_session session, const char* name, const vp_create_options* options, vp_segment* segment) {
  return guarded([&]() -> Status {
    VP_CHECK(need(name != nullptr && segment != nullptr, "name or segment"));
    VP_TRY(s, find_to_block(registry().sessions, session.id));
    VP_TRY(request, create_request(name, options));
    VP_TRY(created, s->ask<wire::CreatedT>(std::move(request), s->once()));
    VP_TRY(id, add_segment(s, std::move(created.record)));
    segment->id = id;
    return {};
  });
}

vp_status vp_seal(vp_segment segment) {
  return guarded([&]() -> Status {
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    VP_CHECK(s->check_writable());
    VP_CHECK(s->flush_partial_pages());
    wire::SealSegmentT request;
    request.id = s->id();
    VP_CHECK(by_id(*s, order(s->session(), body_of(std::move(request)))));
    s->set_sealed();
    return {};
  });
}

vp_status vp_abort(vp_segment segment) {
  return guarded([&]() -> Status {
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    VP_CHECK(s->check_writable());
    VP_CHECK(registry().segments.take(segment.id));
    return abort_segment(*s);
  });
}

vp_status vp_remove(vp_session session, const char* name, int force) {
  return guarded([&]() -> Status {
    VP_CHECK(need(name != nullptr, "name"));
    VP_TRY(s, find_to_block(registry().sessions, session.id));
    wire::RemoveSegmentT request;
    request.name = name;
    request.force = force != 0;
    return order(*s, body_of(std::move(request)));
  });
}

vp_status vp_rename(vp_session session, const char* from, const char* to) {
  return guarded([&]() -> Status {
    VP_CHECK(need(from != nullptr && to != nullptr, "name"));
    VP_TRY(s, find_to_block(registry().sessions, session.id));
    wire::RenameSegmentT request;
    request.from = from;
    request.to = to;
    return order(*s, body_of(std::move(request)));
  });
}

vp_status vp_prefetch(vp_segment segment, uint64_t offset, uint64_t bytes, int wait) {
  return guarded([&]() -> Status {
    VP_TRY(s, range_of(segment, offset, bytes));
    wire::PrefetchT request;
    request.id = s->id();
    request.offset = offset;
    request.bytes = bytes;
    request.wait = wait != 0;
    auto done = s->session().ask<wire::DoneT>(std::move(request),
                                              wait != 0 ? s->session().patient() : s->session().repeatable());
    return by_id(*s, done ? Status{} : done.take_error());
  });
}

vp_status vp_pin(vp_segment segment, uint64_t offset, uint64_t bytes) {
  return guarded([&]() -> Status {
    VP_TRY(s, range_of(segment, offset, bytes));
    VP_CHECK(s->add_pin({offset, bytes}));
    Status pinned = pin(*s, {offset, bytes}, false);
    if (!pinned) s->remove_pin({offset, bytes});
    return pinned;
  });
}

vp_status vp_unpin(vp_segment segment, uint64_t offset, uint64_t bytes) {
  return guarded([&]() -> Status {
    VP_TRY(s, range_of(segment, offset, bytes));
    s->remove_pin({offset, bytes});
    return pin(*s, {offset, bytes}, true);
  });
}

vp_status vp_range_status(vp_segment segment, uint64_t offset, uint64_t bytes, vp_range_info* info) {
  return guarded([&]() -> Status {
    VP_CHECK(check_output(info, "vp_range_info"));
    VP_TRY(s, range_of(segment, offset, bytes));
    wire::RangeStatusT request;
    request.id = s->id();
    request.offset = offset;
    request.bytes = bytes;
    auto reply = s->session().ask<wire::RangeStatusReplyT>(std::move(request), s->session().repeatable());
    if (!reply) return by_id(*s, reply.take_error());
    return output(info, {0, 0, reply->pages, reply->local, reply->cached, reply->remote, reply->lost, reply->pinned},
                  "vp_range_info");
  });
}

}  // extern "C"
