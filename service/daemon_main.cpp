// The program around Daemon: flags, log, signals, limits.
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/log.h"
#include "base/text.h"
#include "platform/process.h"
#include "platform/shared_object.h"
#include "service/daemon.h"
#include "service/flags.h"

namespace vrampool::service {
namespace {

// Descriptors: one or two per object and view.
constexpr std::uint64_t kDescriptorsWanted = 65536;
// Killing the daemon frees no memory, as shared objects outlive it; then the next one would be killed too.
constexpr int kOomScore = -900;

int complain(const Error& e) {
  fmt::print(stderr, "vrampoold: {}\n", e.message);
  return e.code == VP_INVALID ? 2 : 1;
}

int cleanup(const Config& config) {
  auto store = Store::open(config.state_dir);
  if (!store) return complain(store.error());
  platform::ObjectStoreOptions options;
  options.directory = config.memory_dir;
  auto objects = platform::ObjectStore::open(options);
  if (!objects) return complain(objects.error());
  auto removed = objects->cleanup();
  if (!removed) return complain(removed.error());
  if (const Status voided = (*store)->void_memory(); !voided) return complain(voided.error());
  ::unlink((config.memory_dir + ".incarnation").c_str());
  fmt::print("removed {} shared objects below {}\n", *removed, config.memory_dir);
  return 0;
}

void prepare_process() {
  platform::block_sigpipe();
  if (const auto limit = platform::raise_descriptor_limit(kDescriptorsWanted); !limit)
    log::warn("{}", limit.error().message);
  if (const Status ranked = platform::set_oom_score_adjust(kOomScore); !ranked)
    log::debug("{}", ranked.error().message);
}

int serve(Config config, StartDataPlane start_data_plane) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, s);
  // Before any thread exists, so that all of them inherit it.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  log::start("vrampoold", log::parse_level(config.log_level, log::Level::info), config.log_file);
  prepare_process();
  const std::string socket = config.socket_path;
  auto daemon = Daemon::start(std::move(config), std::move(start_data_plane));
  if (!daemon) {
    log::error("{}", daemon.error().message);
    return complain(daemon.error());
  }
  log::info("listening for programs on {}", socket);
  int got = 0;
  while (sigwait(&signals, &got) != 0 || got == SIGHUP) {
  }
  log::info("stopping on signal {}", got);
  (*daemon)->stop();
  return 0;
}

}  // namespace

int run_daemon(int argc, char** argv, StartDataPlane start_data_plane) {
  auto flags = parse_flags(argc, argv);
  if (!flags) return complain(flags.error());
  switch (flags->command) {
    case Command::print_and_exit:
      fmt::print(flags->exit_code == 0 ? stdout : stderr, "{}", flags->text);
      return flags->exit_code;
    case Command::check_config:
      fmt::print("{} is good: node {}, donates {}\n",
                 flags->config.source.empty() ? "the default configuration" : flags->config.source,
                 flags->config.node_name, format_bytes(flags->config.capacity_bytes));
      return 0;
    case Command::cleanup:
      return cleanup(flags->config);
    case Command::serve:
      return serve(std::move(flags->config), std::move(start_data_plane));
  }
  return 1;
}

}  // namespace vrampool::service
