// Work that lasts: import, export, verify. A job has an id, survives the terminal that asked for it, can be watched and
// cancelled, and leaves nothing behind when it fails.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "service/data_plane.h"
#include "service/loop.h"
#include "service/segments.h"
#include "service/workers.h"

namespace vrampool::service {

inline constexpr std::size_t kJobsRunningMax = 32;
// Ended jobs stay visible until this many newer ones have ended.
inline constexpr std::size_t kJobsKeptMax = 64;
inline constexpr unsigned kJobThreads = 2;
// What an import with `keep` leaves when it fails or is cancelled stays this long, and so many of them.
inline constexpr std::int64_t kImportKeptMs = 3'600'000;
inline constexpr std::size_t kImportsKeptMax = 16;

enum class JobState : std::uint8_t { waiting, running, done, failed, cancelled };
const char* to_text(JobState);

// Whose rights a job has on files.
struct FileRights {
  std::uint32_t uid = 0, gid = 0;
  bool unlimited = false;  // the daemon's own user, or root
};

// Shared between its worker and the control thread. Threads: as marked.
struct Job {
  std::uint64_t id = 0;
  const char* kind = "";
  std::string name;  // of the segment
  Who who;
  FileRights rights;
  std::int64_t started_unix_ms = 0;
  std::int64_t started_ns = 0;
  std::atomic<std::uint64_t> done_bytes{0}, total_bytes{0};  // any
  std::atomic<bool> cancelled{false};                        // any
  std::mutex mutex;                                          // guards the rest
  JobState state = JobState::waiting;
  std::int64_t ended_ns = 0;
  Error failure{VP_OK, ""};
  std::shared_ptr<BulkChannel> channel;
};
using JobPtr = std::shared_ptr<Job>;

struct JobView {
  std::uint64_t id = 0;
  std::string kind, name, principal;
  JobState state = JobState::waiting;
  std::uint64_t done_bytes = 0, total_bytes = 0;
  double bytes_per_second = 0;
  std::int64_t seconds_left = -1;  // -1: unknown
  std::int64_t started_unix_ms = 0;
  Error failure{VP_OK, ""};
};

// A half-made import that may go on. `source` stands for name, layout and files; another source cannot take it up.
struct KeptImport {
  std::string source;
  Record segment;
  std::uint64_t safe_bytes = 0;  // of the files, in their order: these are at their hosts
  Instant until{};
};

// Wakes threads that wait for the control thread when that thread is about to wait for them.
struct JobGate {
  std::mutex mutex;
  std::condition_variable wake;
  bool closed = false;
};

// Threads: control thread, except where Job says otherwise.
class Jobs {
 public:
  Jobs(Loop& loop, Segments& segments, DataPlane& data);
  ~Jobs();
  Result<std::uint64_t> start_import(wire::ImportJobT ask, Who who, FileRights rights);
  Result<std::uint64_t> start_export(wire::ExportJobT ask, Who who, FileRights rights);
  Result<std::uint64_t> start_verify(wire::VerifyJobT ask, Who who);
  Status cancel(std::uint64_t id, const Who& who);
  void cancel_all();
  Result<JobView> view(std::uint64_t id) const;
  std::vector<JobView> all() const;
  bool ended(std::uint64_t id) const;
  std::size_t running() const;
  // Imports to go on with. keep() refuses when too many are kept; the caller then drops the segment.
  bool keep(KeptImport kept);
  std::optional<KeptImport> take_kept(const std::string& source, const Who& who);
  // Kept imports whose time is over; the caller drops them.
  std::vector<SegmentId> take_expired(Instant now);

 private:
  using Work = std::function<Status(Job&)>;
  Result<std::uint64_t> start(const char* kind, std::string name, Who who, FileRights rights, Work work);
  void finish(const JobPtr& job, Status result);
  void forget_old();
  Loop& loop_;
  Segments& segments_;
  DataPlane& data_;
  std::map<std::uint64_t, JobPtr> jobs_;
  std::vector<KeptImport> kept_;
  std::uint64_t next_ = 1;
  std::shared_ptr<JobGate> gate_;
  Workers workers_;  // last: joins first
};

// What a job's thread may use of the control plane. Blocking, never on the control thread.
class JobDesk {
 public:
  JobDesk(Jobs& jobs, Loop& loop, Segments& segments, DataPlane& data, std::shared_ptr<JobGate> gate)
      : jobs_(jobs), loop_(loop), segments_(segments), data_(data), gate_(std::move(gate)) {}
  Result<Record> create(CreateAsk ask, const Who& who);
  Result<Record> seal(SegmentId id, wire::RecordT parts);
  Status abort(SegmentId id);
  Result<Record> find(const std::string& name, const Who& who);
  bool keep(KeptImport kept);
  std::optional<KeptImport> take_kept(const std::string& source, const Who& who);
  // Registered with the job, so that cancelling it wakes a blocked transfer.
  Result<std::shared_ptr<BulkChannel>> channel(Job& job);

 private:
  template <class R>
  R run(std::function<Task<R>()> make);
  Jobs& jobs_;
  Loop& loop_;
  Segments& segments_;
  DataPlane& data_;
  std::shared_ptr<JobGate> gate_;
};

Status run_import(JobDesk& desk, Job& job, const wire::ImportJobT& ask);
Status run_export(JobDesk& desk, Job& job, const wire::ExportJobT& ask);
Status run_verify(JobDesk& desk, Job& job);

// VP_CANCELLED once somebody cancelled the job.
Status check_cancelled(const Job& job);

}  // namespace vrampool::service
