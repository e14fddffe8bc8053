// Requests of programs about jobs.
#include <boost/json/object.hpp>

#include "platform/clock.h"
#include "service/control.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kJobPollMs = 20;
constexpr std::uint32_t kJobWaitMaxMs = 60'000;

LocalAnswer started(const Result<std::uint64_t>& job) {
  if (!job) return answer_status(job.error());
  wire::JobStartedT reply;
  reply.job = *job;
  return answer_with(std::move(reply));
}

}  // namespace

Task<LocalAnswer> Control::handle_jobs(SessionPtr session, LocalBody request) {
  Jobs& jobs = node_->jobs();
  if (auto* ask = request.AsImportJob())
    co_return started(jobs.start_import(std::move(*ask), session->who, session->rights));
  if (auto* ask = request.AsExportJob())
    co_return started(jobs.start_export(std::move(*ask), session->who, session->rights));
  if (auto* ask = request.AsVerifyJob()) co_return started(jobs.start_verify(std::move(*ask), session->who));
  if (auto* ask = request.AsJobCancel()) co_return answer_status(jobs.cancel(ask->job, session->who));
  co_return co_await query_job(session, std::move(*request.AsJobQuery()));
}

Task<LocalAnswer> Control::query_job(SessionPtr, wire::JobQueryT ask) {
  const Instant until = platform::now() + Duration::millis(std::min(ask.wait_ms, kJobWaitMaxMs));
  while (!node_->jobs().ended(ask.job) && platform::now() < until) co_await loop_.sleep(Duration::millis(kJobPollMs));
  const Result<JobView> job = node_->jobs().view(ask.job);
  if (!job) co_return answer_status(job.error());
  co_return answer_json(job_report(*job));
}

}  // namespace vrampool::service
