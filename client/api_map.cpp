// The C interface: mapped memory.
#include "client/mapping.h"
#include "client/registry.h"

using namespace vrampool;
using namespace vrampool::client;

namespace {

Status add_tensor_spans(const Segment& s, const vp_map_options& o, std::vector<Span>& spans) {
  VP_CHECK(need(o.tensors != nullptr, "tensors"));
  if (o.tensor_count > kTensorsPerSegmentMax) return error(VP_INVALID, "{} tensors are too many", o.tensor_count);
  for (std::uint64_t i = 0; i < o.tensor_count; ++i) {
    VP_CHECK(need(o.tensors[i] != nullptr, "a tensor's name"));
    const std::int64_t index = s.tensor_index(o.tensors[i]);
    if (index < 0) return error(VP_NOT_FOUND, "{} has no tensor named {}", s.record().name, o.tensors[i]);
    const wire::TensorT& t = *s.record().tensors[static_cast<std::size_t>(index)];
    spans.push_back({t.offset, t.bytes});
    VP_CHECK(s.check_range(t.offset, t.bytes));
  }
  return {};
}

Result<MapWish> wish_of(const Segment& s, const vp_map_options& o) {
  MapWish wish;
  wish.lazy = (o.flags & VP_MAP_LAZY) != 0;
  if (o.on_loss > VP_ON_LOSS_ABORT || (o.flags & ~std::uint32_t{VP_MAP_LAZY}) != 0) {
    return error(VP_INVALID, "unknown flags or on_loss in vp_map_options");
  }
  wish.on_loss = o.on_loss;
  if (o.deadline_ms > 0) wish.deadline = Duration::millis(o.deadline_ms);
  if (o.tensor_count > 0) {
    VP_CHECK(add_tensor_spans(s, o, wish.spans));
    return wish;
  }
  VP_CHECK(s.check_range(o.offset, o.bytes));
  const std::uint64_t bytes = o.bytes > 0 ? o.bytes : s.record().bytes - o.offset;
  if (bytes == 0) return error(VP_INVALID, "an empty range cannot be mapped");
  wish.spans.push_back({o.offset, bytes});
  return wish;
}

Status check_mappable(const Segment& s) {
  if (s.gone()) return error(VP_STALE, "{} was removed or replaced: open it again", s.record().name);
  if (s.state() == wire::SegmentState::sealed) return {};
  if (s.state() == wire::SegmentState::creating) return error(VP_BUSY, "{} is not sealed yet", s.record().name);
  return error(VP_UNSUPPORTED, "{} is coherent: this version maps sealed segments only", s.record().name);
}

// A loss whose page is visible already may still be on its way to us: one question to the daemon overtakes nothing.
void let_losses_arrive(const View& view) {
  Session& session = view.session();
  wire::RangeStatusT request;
  request.id = view.segment().id();
  request.bytes = kPageBytes;
  CallOptions call = session.repeatable();
  call.away = Duration{};
  call.answer = kStatusDeadline;
  static_cast<void>(session.ask_envelope(body_of(std::move(request)), call));
}

}  // namespace

extern "C" {

vp_status vp_map(vp_segment segment, const vp_map_options* options, vp_view* view, vp_range* ranges) {
  return guarded([&]() -> Status {
    VP_CHECK(need(view != nullptr && ranges != nullptr, "view or ranges"));
    VP_TRY(s, find_to_block(registry().segments, segment.id));
    VP_TRY(o, input(options, "vp_map_options"));
    VP_CHECK(check_mappable(*s));
    VP_TRY(wish, wish_of(*s, o));
    std::vector<vp_range> found;
    VP_TRY(mapped, map_segment(s, wish, found));
    auto id = registry().views.add(mapped);
    if (!id) {
      unmap_view(mapped);
      return id.take_error();
    }
    mapped->set_handle({*id});
    VP_CHECK(s->session().usable());  // a disconnect meanwhile has unmapped it
    view->id = *id;
    std::copy(found.begin(), found.end(), ranges);
    return {};
  });
}

vp_status vp_unmap(vp_view view) {
  return guarded([&]() -> Status {
    VP_CHECK(find(registry().views, view.id));
    VP_TRY(taken, registry().views.take(view.id));
    unmap_view(taken);
    return {};
  });
}

vp_status vp_map_status(vp_view view, vp_view_info* info) {
  return guarded([&]() -> Status {
    VP_CHECK(check_output(info, "vp_view_info"));
    VP_TRY(v, find(registry().views, view.id));
    if (v->lazy()) let_losses_arrive(*v);
    vp_view_info out{};
    v->status(out);
    return output(info, out, "vp_view_info");
  });
}

}  // extern "C"
