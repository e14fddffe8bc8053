#include "cli/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "base/text.h"
#include "platform/clock.h"

namespace vrampool::cli {
namespace {

constexpr std::uint32_t kQueryWaitMs = 500;
constexpr std::size_t kBarWidth = 30;

volatile std::sig_atomic_t interrupts = 0;

void on_interrupt(int) {
  if (interrupts > 0) ::_exit(130);
  interrupts = 1;
}

// Rate over the whole job, and what is left at that rate.
std::string rate_text(const json::value& job, double seconds) {
  const auto done = static_cast<double>(number_of(job, "done_bytes"));
  const auto total = static_cast<double>(number_of(job, "total_bytes"));
  if (seconds < 0.2 || done <= 0) return "";
  const double rate = done / seconds;
  const double left = total > done ? (total - done) / rate : 0;
  return fmt::format("{}, {} left", format_rate(rate), format_duration_ns(static_cast<std::int64_t>(left * 1e9)));
}

class Progress {
 public:
  explicit Progress(const Invocation& in) : quiet_(in.json), bar_(!in.json && ::isatty(STDERR_FILENO) == 1) {}
  ~Progress() {
    if (bar_ && shown_) std::fputs("\r\x1b[K", stderr);
  }
  void show(const json::value& job) {
    const double seconds = (platform::now() - begun_).as_seconds();
    const std::uint64_t done = number_of(job, "done_bytes"), total = number_of(job, "total_bytes");
    const std::uint64_t percent = total == 0 ? 0 : std::min<std::uint64_t>(100, done * 100 / total);
    if (bar_) {
      const std::size_t filled = percent * kBarWidth / 100;
      fmt::print(stderr, "\r\x1b[K[{:#<{}}{:.<{}}] {:>3} %  {} of {}  {}", "", filled, "", kBarWidth - filled, percent,
                 format_bytes(done), format_bytes(total), rate_text(job, seconds));
      std::fflush(stderr);
      shown_ = true;
    } else if (!quiet_ && percent >= next_line_ && total > 0 && percent < 100) {
      fmt::print(stderr, "{} % of {}  {}\n", percent, format_bytes(total), rate_text(job, seconds));
      next_line_ = percent / 10 * 10 + 10;
    }
  }

 private:
  Instant begun_ = platform::now();
  bool quiet_, bar_, shown_ = false;
  std::uint64_t next_line_ = 10;
};

Result<json::value> query(client::Admin& admin, std::uint64_t job) {
  wire::JobQueryT request;
  request.job = job;
  request.wait_ms = kQueryWaitMs;
  VP_TRY(reply, admin.ask<wire::JsonReplyT>(std::move(request)));
  return parse_document(reply.json);
}

Status cancel(client::Admin& admin, std::uint64_t job) {
  wire::JobCancelT request;
  request.job = job;
  VP_CHECK(admin.order(std::move(request)));
  return {};
}

Result<json::value> wait_for_end(const Invocation& in, client::Admin& admin, std::uint64_t job) {
  CatchInterrupt guard;
  Progress progress(in);
  bool cancelled = false;
  for (;;) {
    VP_TRY(doc, query(admin, job));
    const std::string state = text_of(doc, "state");
    if (state != "running" && state != "waiting") return std::move(doc);
    progress.show(doc);
    if (CatchInterrupt::happened() && !cancelled) {
      cancelled = true;
      VP_CHECK(cancel(admin, job));
    }
  }
}

}  // namespace

CatchInterrupt::CatchInterrupt() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
}

CatchInterrupt::~CatchInterrupt() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
}

bool CatchInterrupt::happened() { return interrupts > 0; }

Result<int> follow_job(const Invocation& in, client::Admin& admin, std::uint64_t job, const std::string& verb,
                       const std::string& done) {
  if (in.has("--detach")) return say(in, verb, fmt::format("job {} runs; see vrampool jobs", job));
  const Instant begun = platform::now();
  VP_TRY(end, wait_for_end(in, admin, job));
  const std::string state = text_of(end, "state");
  if (state == "cancelled") return error(VP_CANCELLED, "{} was cancelled; its memory is free again", verb);
  if (state != "done") return error(VP_FAILED, "{}", text_of(end, "message", "the job failed"));
  if (in.json) {
    print_json(end);
    return kFine;
  }
  const double seconds = (platform::now() - begun).as_seconds();
  const std::uint64_t bytes = number_of(end, "total_bytes");
  fmt::print("{}: {} in {} ({})\n", done, format_bytes(bytes),
             format_duration_ns(static_cast<std::int64_t>(seconds * 1e9)),
             format_rate(static_cast<double>(bytes) / std::max(seconds, 1e-3)));
  return kFine;
}

}  // namespace vrampool::cli
