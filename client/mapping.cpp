#include "client/mapping.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "client/registry.h"
#include "platform/fault_source.h"

namespace vrampool::client {

namespace {

bool wants_posix(const Session& session) {
  const char* forced = std::getenv("VRAMPOOL_FAULTS");
  return (forced != nullptr && std::string_view(forced) == "posix") ||
         session.attached().fault_source.starts_with("posix");
}

struct MappedAnswer {
  wire::MappedT mapped;
  std::vector<UniqueFd> descriptors;
};

Status check_parts(const MappedAnswer& a, std::uint64_t bytes) {
  if (a.descriptors.size() != a.mapped.parts.size()) {
    return error(VP_CORRUPT, "the daemon sent {} descriptors for {} parts", a.descriptors.size(),
                 a.mapped.parts.size());
  }
  std::uint64_t at = 0;
  for (const auto& p : a.mapped.parts) {
    if (p->view_offset != at || p->bytes == 0 || p->bytes > bytes - at) {
      return error(VP_CORRUPT, "the daemon's parts of a view do not fit together");
    }
    at += p->bytes;
  }
  return at == bytes ? Status{} : error(VP_CORRUPT, "the daemon mapped {} of {} bytes", at, bytes);
}

bool has_cache(const wire::MappedT& mapped) {
  return std::any_of(mapped.parts.begin(), mapped.parts.end(),
                     [](const auto& p) { return p->kind == wire::PartKind::cache; });
}

using ViewPtr = std::unique_ptr<platform::ClientView>;

Result<ViewPtr> stitch(Result<ViewPtr> made, const MappedAnswer& a) {
  VP_TRY(view, std::move(made));
  for (std::size_t i = 0; i < a.mapped.parts.size(); ++i) {
    const wire::ViewPartT& p = *a.mapped.parts[i];
    const int fd = a.descriptors[i].get();
    VP_CHECK(p.kind == wire::PartKind::cache ? view->map_cache(p.view_offset, fd, p.object_offset, p.bytes)
                                             : view->map_direct(p.view_offset, fd, p.object_offset, p.bytes));
  }
  return std::move(view);
}

Result<ViewPtr> stitch_with(const Session& session, const MappedAnswer& a, std::uint64_t bytes,
                            platform::FaultSourceKind kind) {
  platform::ClientViewOptions options;
  options.kind = kind;
  options.bytes = bytes;
  options.device_fd = session.fault_device();
  return stitch(platform::ClientView::create(options), a);
}

// No fault source where nothing can be missing; else userfaultfd, or the POSIX source where this process may not have
// it.
Result<ViewPtr> stitch_somehow(const Session& session, const MappedAnswer& a, std::uint64_t bytes) {
  using platform::FaultSourceKind;
  if (!has_cache(a.mapped)) return stitch(platform::ClientView::create_direct(bytes), a);
  if (wants_posix(session)) return stitch_with(session, a, bytes, FaultSourceKind::posix);
  auto view = stitch_with(session, a, bytes, FaultSourceKind::userfaultfd);
  if (view || view.error().code != VP_UNSUPPORTED) return view;
  return stitch_with(session, a, bytes, FaultSourceKind::posix);
}

Result<MappedAnswer> ask_map(Segment& segment, const Span& run, const MapWish& wish) {
  wire::MapSegmentT request;
  request.id = segment.id();
  request.offset = run.offset;
  request.bytes = run.bytes;
  request.resident = !wish.lazy;
  request.on_loss = static_cast<std::uint8_t>(wish.on_loss);
  Session& session = segment.session();
  CallOptions call = session.repeatable();
  if (!wish.lazy) call.answer = wish.deadline;
  VP_TRY(answer, session.ask_envelope(body_of(std::move(request)), call));
  VP_CHECK(by_id(segment, status_of(answer.body)));
  MappedAnswer out;
  out.descriptors = std::move(answer.descriptors);
  VP_TRY(mapped, expect<wire::MappedT>(std::move(answer.body)));
  out.mapped = std::move(mapped);
  VP_CHECK(check_parts(out, run.bytes));
  return out;
}

// The daemon serves the region's faults from here on.
Status attach_region(Session& session, const View& view, std::size_t index) {
  wire::AttachViewT request;
  platform::AttachDescriptors descriptors;
  if (!view.attach_request(index, false, request, descriptors)) {
    return error(VP_NO_SPACE, "no descriptor is left for the fault source of a view");
  }
  std::array<int, 2> raw{};
  for (std::size_t d = 0; d < descriptors.size(); ++d) raw[d] = descriptors[d].get();
  CallOptions call = session.repeatable();
  call.descriptors = std::span(raw).first(descriptors.size());
  auto done = session.ask<wire::DoneT>(std::move(request), call);
  return done ? Status{} : done.take_error();
}

void tell_unmapped(Session& session, std::uint64_t daemon_view) {
  wire::UnmapViewT request;
  request.view = daemon_view;
  // A daemon that is away forgets it by itself: it hears nothing of the view when it comes back.
  CallOptions call = session.repeatable();
  call.away = Duration{};
  static_cast<void>(session.ask<wire::DoneT>(std::move(request), call));
}

Result<Region> map_run(Segment& segment, const Span& run, const MapWish& wish) {
  VP_TRY(answer, ask_map(segment, run, wish));
  Region region;
  region.daemon_view = answer.mapped.view;
  region.offset = run.offset;
  region.bytes = run.bytes;
  region.resident = !wish.lazy;
  region.faults = has_cache(answer.mapped);
  auto map = stitch_somehow(segment.session(), answer, run.bytes);
  if (!map) {
    tell_unmapped(segment.session(), region.daemon_view);
    return map.take_error();
  }
  region.map = std::move(*map);
  return region;
}

vp_range pointer_to(const Span& span, const std::vector<Region>& regions) {
  for (const Region& r : regions) {
    if (r.holds(span.offset, span.bytes)) return {r.map->base() + (span.offset - r.offset), span.bytes};
  }
  VP_ASSERT(false && "every span lies in a run");
  return {};
}

}  // namespace

std::vector<Span> runs_of(const std::vector<Span>& spans, bool lazy, std::uint64_t granule) {
  std::vector<Span> pages;
  for (const Span& s : spans) {
    const std::uint64_t from = s.offset / granule * granule;
    const std::uint64_t to = (s.offset + std::max<std::uint64_t>(s.bytes, 1) + granule - 1) / granule * granule;
    pages.push_back({from, to - from});
  }
  std::sort(pages.begin(), pages.end(), [](const Span& a, const Span& b) { return a.offset < b.offset; });
  std::vector<Span> runs;
  for (const Span& p : pages) {
    const bool joins = !runs.empty() && (lazy || p.offset <= runs.back().offset + runs.back().bytes);
    if (!joins)
      runs.push_back(p);
    else
      runs.back().bytes = std::max(runs.back().bytes, p.offset + p.bytes - runs.back().offset);
  }
  return runs;
}

Result<std::shared_ptr<View>> map_segment(const std::shared_ptr<Segment>& segment, const MapWish& wish,
                                          std::vector<vp_range>& ranges) {
  Status outcome;
  std::vector<Region> regions;
  for (const Span& run : runs_of(wish.spans, wish.lazy, kPageBytes)) {
    auto region = map_run(*segment, run, wish);
    if (!region) outcome = region.take_error();
    if (!outcome.ok()) break;
    regions.push_back(std::move(*region));
  }
  std::vector<std::size_t> faulting;
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (regions[i].faults) faulting.push_back(i);
  }
  for (const Span& span : wish.spans) {
    if (outcome.ok()) ranges.push_back(pointer_to(span, regions));
  }
  auto view = std::make_shared<View>(segment, wish.on_loss, std::move(regions));
  // Known before attached: a loss may be told at once, and a daemon restart must find it.
  Session& session = segment->session();
  if (outcome.ok()) outcome = session.add_view(view);
  for (const std::size_t i : faulting) {
    if (outcome.ok()) outcome = attach_region(session, *view, i);
  }
  if (outcome.ok()) return view;
  unmap_view(view);
  return outcome.take_error();
}

void unmap_view(const std::shared_ptr<View>& view) {
  Session& session = view->session();
  session.remove_view(*view);
  for (const std::uint64_t number : view->close()) tell_unmapped(session, number);
}

}  // namespace vrampool::client
