// The list of jobs, their threads, and their way to the control thread.
#include "service/jobs.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "platform/clock.h"

namespace vrampool::service {
namespace {

bool is_over(JobState s) { return s == JobState::done || s == JobState::failed || s == JobState::cancelled; }

JobView view_of(Job& job) {
  const std::lock_guard lock(job.mutex);
  JobView v{job.id,          job.kind, job.name, job.who.principal,   job.state,  job.done_bytes,
            job.total_bytes, 0,        -1,       job.started_unix_ms, job.failure};
  const std::int64_t until = job.ended_ns ? job.ended_ns : platform::monotonic_ns();
  const double seconds = static_cast<double>(until - job.started_ns) * 1e-9;
  if (seconds > 0.01) v.bytes_per_second = static_cast<double>(v.done_bytes) / seconds;
  if (is_over(v.state))
    v.seconds_left = 0;
  else if (v.bytes_per_second > 0 && v.total_bytes >= v.done_bytes && v.total_bytes > 0)
    v.seconds_left = static_cast<std::int64_t>(static_cast<double>(v.total_bytes - v.done_bytes) / v.bytes_per_second);
  return v;
}

}  // namespace

const char* to_text(JobState s) {
  switch (s) {
    case JobState::waiting:
    case JobState::running:
      return "running";
    case JobState::done:
      return "done";
    case JobState::failed:
      return "failed";
    case JobState::cancelled:
      return "cancelled";
  }
  return "failed";
}

Status check_cancelled(const Job& job) {
  if (job.cancelled) return error(VP_CANCELLED, "cancelled");
  return {};
}

Jobs::Jobs(Loop& loop, Segments& segments, DataPlane& data)
    : loop_(loop),
      segments_(segments),
      data_(data),
      gate_(std::make_shared<JobGate>()),
      workers_("vp-job", kJobThreads) {}

Jobs::~Jobs() {
  cancel_all();
  const std::lock_guard lock(gate_->mutex);
  gate_->closed = true;
  gate_->wake.notify_all();
}

Result<std::uint64_t> Jobs::start_import(wire::ImportJobT ask, Who who, FileRights rights) {
  VP_CHECK(check_name(ask.name));
  if (ask.paths.empty()) return error(VP_INVALID, "an import needs at least one file");
  const std::string name = ask.name;
  return start("import", name, who, rights, [this, ask = std::move(ask)](Job& job) {
    JobDesk desk(*this, loop_, segments_, data_, gate_);
    return run_import(desk, job, ask);
  });
}

Result<std::uint64_t> Jobs::start_export(wire::ExportJobT ask, Who who, FileRights rights) {
  VP_TRY(record, segments_.find(ask.name, {}, who));
  if (record->state != wire::SegmentState::sealed) return error(VP_BUSY, "segment \"{}\" is not sealed yet", ask.name);
  if (ask.directory.empty() || ask.directory.front() != '/')
    return error(VP_INVALID, "export needs an absolute directory, not \"{}\"", ask.directory);
  const std::string name = ask.name;
  return start("export", name, who, rights, [this, ask = std::move(ask)](Job& job) {
    JobDesk desk(*this, loop_, segments_, data_, gate_);
    return run_export(desk, job, ask);
  });
}

Result<std::uint64_t> Jobs::start_verify(wire::VerifyJobT ask, Who who) {
  VP_TRY(record, segments_.find(ask.name, {}, who));
  if (record->state != wire::SegmentState::sealed) return error(VP_BUSY, "segment \"{}\" is not sealed yet", ask.name);
  return start("verify", ask.name, who, {}, [this](Job& job) {
    JobDesk desk(*this, loop_, segments_, data_, gate_);
    return run_verify(desk, job);
  });
}

Result<std::uint64_t> Jobs::start(const char* kind, std::string name, Who who, FileRights rights, Work work) {
  if (running() >= kJobsRunningMax) return error(VP_BUSY, "{} jobs are running or waiting already", kJobsRunningMax);
  const auto job = std::make_shared<Job>();
  job->id = next_++;
  job->kind = kind;
  job->name = std::move(name);
  job->who = std::move(who);
  job->rights = rights;
  job->started_unix_ms = platform::unix_ms();
  job->started_ns = platform::monotonic_ns();
  const bool queued = workers_.run([this, job, work = std::move(work)] {
    {
      const std::lock_guard lock(job->mutex);
      job->state = JobState::running;
    }
    const Status begun = check_cancelled(*job);
    finish(job, begun ? work(*job) : begun);
  });
  if (!queued) return error(VP_BUSY, "this daemon is stopping");
  jobs_.emplace(job->id, job);
  forget_old();
  log::info("job {} ({} \"{}\") started for {}", job->id, kind, job->name, job->who.principal);
  return job->id;
}

// On the job's thread.
void Jobs::finish(const JobPtr& job, Status result) {
  const std::lock_guard lock(job->mutex);
  job->channel.reset();
  job->ended_ns = platform::monotonic_ns();
  job->state = result ? JobState::done : job->cancelled ? JobState::cancelled : JobState::failed;
  if (!result) job->failure = job->cancelled ? Error{VP_CANCELLED, "cancelled"} : result.take_error();
  if (job->state == JobState::failed)
    log::warn("job {} ({} \"{}\") failed: {}", job->id, job->kind, job->name, job->failure.message);
  else
    log::info("job {} ({} \"{}\") {}: {}", job->id, job->kind, job->name, to_text(job->state),
              format_bytes(job->done_bytes));
}

Status Jobs::cancel(std::uint64_t id, const Who& who) {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return error(VP_NOT_FOUND, "no job {} on this node", id);
  Job& job = *at->second;
  if (!who.operator_rights && who.principal != job.who.principal)
    return error(VP_DENIED, "job {} belongs to {}", id, job.who.principal);
  job.cancelled = true;
  const std::lock_guard lock(job.mutex);
  if (job.channel) job.channel->cancel();
  return {};
}

void Jobs::cancel_all() {
  const Who anybody{"", true};
  for (const auto& [id, job] : jobs_) static_cast<void>(cancel(id, anybody));
}

Result<JobView> Jobs::view(std::uint64_t id) const {
  const auto at = jobs_.find(id);
  if (at == jobs_.end()) return error(VP_NOT_FOUND, "no job {} on this node", id);
  return view_of(*at->second);
}

std::vector<JobView> Jobs::all() const {
  std::vector<JobView> out;
  for (const auto& [id, job] : jobs_) out.push_back(view_of(*job));
  return out;
}

bool Jobs::ended(std::uint64_t id) const {
  const auto v = view(id);
  return !v || is_over(v->state);
}

std::size_t Jobs::running() const {
  std::size_t n = 0;
  for (const auto& [id, job] : jobs_) n += !ended(id);
  return n;
}

bool Jobs::keep(KeptImport kept) {
  if (kept_.size() >= kImportsKeptMax) return false;
  kept_.push_back(std::move(kept));
  return true;
}

std::optional<KeptImport> Jobs::take_kept(const std::string& source, const Who& who) {
  const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const KeptImport& k) {
    return k.source == source && k.segment->principal == who.principal;
  });
  if (at == kept_.end()) return {};
  KeptImport out = std::move(*at);
  kept_.erase(at);
  return out;
}

std::vector<SegmentId> Jobs::take_expired(Instant now) {
  std::vector<SegmentId> out;
  for (const KeptImport& k : kept_)
    if (now > k.until) out.push_back(k.segment->id);
  std::erase_if(kept_, [&](const KeptImport& k) { return now > k.until; });
  return out;
}

void Jobs::forget_old() {
  while (jobs_.size() > kJobsKeptMax + kJobsRunningMax) {
    const auto old = std::find_if(jobs_.begin(), jobs_.end(), [this](const auto& j) { return ended(j.first); });
    if (old == jobs_.end()) return;
    jobs_.erase(old);
  }
}

// ---- the way to the control thread ----

namespace {

template <class R>
Task<> deliver(Task<R> work, std::shared_ptr<JobGate> gate, std::shared_ptr<std::optional<R>> slot) {
  R result = co_await work;
  const std::lock_guard lock(gate->mutex);
  slot->emplace(std::move(result));
  gate->wake.notify_all();
}

}  // namespace

template <class R>
R JobDesk::run(std::function<Task<R>()> make) {
  const auto slot = std::make_shared<std::optional<R>>();
  // Runs on the control thread, the one that closes the gate: behind an open gate this desk still waits below.
  loop_.post([&loop = loop_, make = std::move(make), gate = gate_, slot] {
    if (!gate->closed) loop.spawn(deliver<R>(make(), gate, slot));
  });
  std::unique_lock lock(gate_->mutex);
  gate_->wake.wait(lock, [&] { return gate_->closed || slot->has_value(); });
  if (!slot->has_value()) return error(VP_CANCELLED, "the daemon is stopping");
  return std::move(**slot);
}

Result<Record> JobDesk::create(CreateAsk ask, const Who& who) {
  const auto shared = std::make_shared<CreateAsk>(std::move(ask));
  return run<Result<Record>>([this, shared, who] { return segments_.create(std::move(*shared), who); });
}

Result<Record> JobDesk::seal(SegmentId id, wire::RecordT parts) {
  const auto shared = std::make_shared<wire::RecordT>(std::move(parts));
  return run<Result<Record>>(
      [this, id, shared] { return segments_.seal(id, std::make_unique<wire::RecordT>(*shared)); });
}

Status JobDesk::abort(SegmentId id) {
  return run<Status>([this, id] { return segments_.abort(id); });
}

namespace {
// What is known at once, as a task. A Result, so that it can also say that the daemon stops.
template <class T>
Task<Result<T>> ready(Result<T> value) {
  co_return value;
}
}  // namespace

bool JobDesk::keep(KeptImport kept) {
  const Result<bool> done = run<Result<bool>>([this, kept] { return ready<bool>(jobs_.keep(kept)); });
  return done && *done;
}

std::optional<KeptImport> JobDesk::take_kept(const std::string& source, const Who& who) {
  using Kept = std::optional<KeptImport>;
  const Result<Kept> done =
      run<Result<Kept>>([this, source, who] { return ready<Kept>(jobs_.take_kept(source, who)); });
  return done ? *done : Kept();
}

Result<Record> JobDesk::find(const std::string& name, const Who& who) {
  return run<Result<Record>>([this, name, who] { return ready<Record>(segments_.find(name, {}, who)); });
}

Result<std::shared_ptr<BulkChannel>> JobDesk::channel(Job& job) {
  VP_TRY(channel, run<Result<std::shared_ptr<BulkChannel>>>([this] {
           return ready<std::shared_ptr<BulkChannel>>(std::shared_ptr<BulkChannel>(data_.bulk_channel()));
         }));
  const std::lock_guard lock(job.mutex);
  job.channel = channel;
  if (job.cancelled) return error(VP_CANCELLED, "cancelled");
  return channel;
}

}  // namespace vrampool::service
