// Requests of programs about segments and views.
#include "base/log.h"
#include "service/control.h"

namespace vrampool::service {
namespace {

// Descriptors of a view beyond this do not fit into one frame.
constexpr std::size_t kPartsMax = kFrameDescriptorsMax;

}  // namespace

Task<LocalAnswer> Control::handle_in_pool(SessionPtr session, LocalBody request, std::vector<UniqueFd> descriptors) {
  using wire::LocalBody;
  switch (request.type) {
    case LocalBody::OpenSegment:
      co_return open_segment(*session, *request.AsOpenSegment());
    case LocalBody::MapSegment:
      co_return co_await map(session, std::move(*request.AsMapSegment()));
    case LocalBody::AttachView:
      co_return co_await attach_view(session, std::move(*request.AsAttachView()), std::move(descriptors));
    case LocalBody::UnmapView:
      co_return co_await unmap(session, request.AsUnmapView()->view);
    case LocalBody::Prefetch:
      co_return co_await prefetch(session, std::move(*request.AsPrefetch()));
    case LocalBody::PinRange:
      co_return co_await pin(session, std::move(*request.AsPinRange()));
    case LocalBody::RangeStatus:
      co_return co_await range_status(session, std::move(*request.AsRangeStatus()));
    case LocalBody::ImportJob:
    case LocalBody::ExportJob:
    case LocalBody::VerifyJob:
    case LocalBody::JobQuery:
    case LocalBody::JobCancel:
      co_return co_await handle_jobs(session, std::move(request));
    default:
      co_return co_await handle_segments(session, std::move(request));
  }
}

Task<LocalAnswer> Control::handle_segments(SessionPtr session, LocalBody request) {
  using wire::LocalBody;
  switch (request.type) {
    case LocalBody::CreateSegment:
      co_return co_await create(session, std::move(*request.AsCreateSegment()));
    case LocalBody::SealSegment:
      co_return co_await seal(session, request.AsSealSegment()->id);
    case LocalBody::AbortSegment:
      co_return co_await abort(session, request.AsAbortSegment()->id);
    case LocalBody::RemoveSegment:
      co_return co_await remove(session, std::move(*request.AsRemoveSegment()));
    case LocalBody::RenameSegment: {
      const wire::RenameSegmentT& ask = *request.AsRenameSegment();
      const Status renamed = co_await node_->segments().rename(ask.from, ask.to, session->who);
      co_return answer_status(renamed);
    }
    default:
      co_return answer_status(
          error(VP_UNSUPPORTED, "this daemon does not know that request: is the program newer than the daemon?"));
  }
}

// ---- reading ----

LocalAnswer Control::open_segment(const Session& session, const wire::OpenSegmentT& ask) {
  const Result<Record> record = node_->segments().find(ask.name, ask.id, session.who);
  if (!record) return answer_status(record.error());
  node_->data().allow(session.client, (*record)->id);
  wire::OpenedT opened;
  opened.record = std::make_unique<wire::RecordT>(**record);
  opened.record->create_token = 0;
  return answer_with(std::move(opened));
}

Task<LocalAnswer> Control::map(SessionPtr session, wire::MapSegmentT ask) {
  const Result<Record> record = node_->segments().find("", ask.id, session->who);
  if (!record) co_return answer_status(record.error());
  if ((*record)->state != wire::SegmentState::sealed)
    co_return answer_status(error(VP_BUSY, "segment {} is not sealed yet", to_text(ask.id)));
  if (session->views.size() >= kViewsPerSessionMax)
    co_return answer_status(error(VP_BUSY, "{} views of this program: it may have no more", kViewsPerSessionMax));
  auto done = loop_.reply<Result<std::shared_ptr<DataPlane::MappedView>>>();
  node_->data().map(session->client, ask, [done](Result<DataPlane::MappedView> r) {
    if (r)
      done.set(std::make_shared<DataPlane::MappedView>(std::move(*r)));
    else
      done.set(r.take_error());
  });
  const auto view = co_await done;
  if (!view) co_return answer_status(view.error());
  if ((*view)->descriptors.size() > kPartsMax)
    co_return answer_status(error(VP_UNSUPPORTED, "that range has {} parts: map at most {} at once",
                                  (*view)->descriptors.size(), kPartsMax));
  session->views[(*view)->view] = ask.id;
  wire::MappedT mapped;
  mapped.view = (*view)->view;
  for (const wire::ViewPartT& part : (*view)->parts) mapped.parts.push_back(std::make_unique<wire::ViewPartT>(part));
  LocalAnswer answer = answer_with(std::move(mapped));
  answer.descriptors = std::move((*view)->descriptors);
  co_return answer;
}

Task<LocalAnswer> Control::attach_view(SessionPtr session, wire::AttachViewT ask, std::vector<UniqueFd> descriptors) {
  const Result<Record> record = node_->segments().find("", ask.id, session->who);
  if (!record) co_return answer_status(record.error());
  node_->data().allow(session->client, ask.id);
  auto done = loop_.reply<Status>();
  node_->data().attach_view(session->client, ask, std::move(descriptors), [done](Status s) { done.set(std::move(s)); });
  const Status attached = co_await done;
  if (attached) session->views[ask.view] = ask.id;
  co_return answer_status(attached);
}

Task<LocalAnswer> Control::unmap(SessionPtr session, std::uint64_t view) {
  auto done = loop_.reply<Status>();
  node_->data().unmap(session->client, view, [done](Status s) { done.set(std::move(s)); });
  const Status gone = co_await done;
  session->views.erase(view);
  co_return answer_status(gone);
}

Task<LocalAnswer> Control::prefetch(SessionPtr session, wire::PrefetchT ask) {
  const Result<Record> record = node_->segments().find("", ask.id, session->who);
  if (!record) co_return answer_status(record.error());
  auto done = loop_.reply<Status>();
  node_->data().prefetch(ask, [done](Status s) { done.set(std::move(s)); });
  if (!ask.wait) co_return answer_status({});
  const Status fetched = co_await done;
  co_return answer_status(fetched);
}

Task<LocalAnswer> Control::pin(SessionPtr session, wire::PinRangeT ask) {
  const Result<Record> record = node_->segments().find("", ask.id, session->who);
  if (!record) co_return answer_status(record.error());
  auto done = loop_.reply<Status>();
  node_->data().pin(session->client, ask, [done](Status s) { done.set(std::move(s)); });
  const Status pinned = co_await done;
  co_return answer_status(pinned);
}

Task<LocalAnswer> Control::range_status(SessionPtr session, wire::RangeStatusT ask) {
  const Result<Record> record = node_->segments().find("", ask.id, session->who);
  if (!record) co_return answer_status(record.error());
  auto done = loop_.reply<Result<wire::RangeStatusReplyT>>();
  node_->data().range_status(ask, [done](Result<wire::RangeStatusReplyT> r) { done.set(std::move(r)); });
  Result<wire::RangeStatusReplyT> status = co_await done;
  if (!status) co_return answer_status(status.error());
  co_return answer_with(std::move(*status));
}

// ---- making and removing ----

Task<LocalAnswer> Control::create(SessionPtr session, wire::CreateSegmentT ask) {
  CreateAsk c;
  c.name = std::move(ask.name);
  c.bytes = ask.bytes;
  c.kind = ask.kind;
  c.placement = std::move(ask.placement);
  c.nodes = std::move(ask.nodes);
  c.mode = ask.mode == 0 ? 0644 : ask.mode;
  c.copies = ask.copies;
  c.tensors = std::move(ask.tensors);
  const Result<Record> record = co_await node_->segments().create(std::move(c), session->who);
  if (!record) co_return answer_status(record.error());
  // The program may have died meanwhile: then nobody will ever seal this.
  const auto all = sessions_.all();
  if (std::find(all.begin(), all.end(), session) == all.end()) node_->abandon((*record)->id);
  session->creating.insert((*record)->id);
  node_->data().allow(session->client, (*record)->id);
  wire::CreatedT created;
  created.record = std::make_unique<wire::RecordT>(**record);
  co_return answer_with(std::move(created));
}

Task<LocalAnswer> Control::seal(SessionPtr session, SegmentId id) {
  if (!session->creating.contains(id))
    co_return answer_status(error(VP_DENIED, "segment {} is not being created by this program", to_text(id)));
  const Result<Record> sealed = co_await node_->segments().seal(id, nullptr);
  if (!sealed) co_return answer_status(sealed.error());
  session->creating.erase(id);
  co_return answer_status({});
}

Task<LocalAnswer> Control::abort(SessionPtr session, SegmentId id) {
  if (session->creating.erase(id) == 0)
    co_return answer_status(error(VP_DENIED, "segment {} is not being created by this program", to_text(id)));
  const Status dropped = co_await node_->segments().abort(id);
  co_return answer_status(dropped);
}

Task<LocalAnswer> Control::remove(SessionPtr session, wire::RemoveSegmentT ask) {
  const Result<Record> record = node_->segments().find(ask.name, {}, session->who);
  if (!record) co_return answer_status(record.error());
  if (!may_change(session->who, **record))
    co_return answer_status(error(VP_DENIED, "segment \"{}\" belongs to {}", ask.name, (*record)->principal));
  std::size_t users = 0;
  for (const auto& other : sessions_.all())
    for (const auto& [view, segment] : other->views) users += segment == (*record)->id;
  if (users > 0 && !ask.force)
    co_return answer_status(error(
        VP_BUSY, "segment \"{}\" is mapped by {} views on this node: say --force, they keep what they have mapped",
        ask.name, users));
  const Status removed = co_await node_->segments().remove((*record)->id);
  co_return answer_status(removed);
}

}  // namespace vrampool::service
