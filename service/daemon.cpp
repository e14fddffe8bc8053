// Start and stop of a daemon.
#include "service/daemon.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "service/files.h"

namespace vrampool::service {
namespace {

constexpr std::int64_t kStopDeadlineMs = 5000;

// A port is part of a node's address on the roster, so it is chosen once, before anybody is told.
Result<std::uint16_t> free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof at;
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), length) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &length) != 0)
    return error_errno(errno, "choosing a control port");
  return ntohs(at.sin_port);
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(Config config, StartDataPlane start_data_plane) {
  VP_CHECK(complete_config(config));
  if (config.control_port == 0) {
    VP_TRY(port, free_port());
    config.control_port = port;
  }
  std::unique_ptr<Daemon> daemon(new Daemon(std::move(config)));
  VP_CHECK(daemon->open(std::move(start_data_plane)));
  return daemon;
}

Status Daemon::open(StartDataPlane start_data_plane) {
  VP_TRY(store, Store::open(config_.state_dir));
  store_ = std::move(store);
  VP_CHECK(make_directories(config_.run_dir, 0755));
  loop_ = std::make_unique<Loop>();
  files_ = std::make_unique<Workers>("vp-files", 2);
  thread_ = std::thread([this] {
    platform::name_this_thread("vp-control");
    loop_->run();
  });
  const Status started = loop_->call([&] {
    control_ = std::make_unique<Control>(*loop_, *files_, *store_, config_, std::move(start_data_plane));
    return control_->start();
  });
  if (started) write_pid_file();
  return started;
}

Daemon::~Daemon() { stop(); }

void Daemon::stop() {
  if (!thread_.joinable()) return;
  loop_->call([this] { control_->begin_stop(); });
  const Instant until = platform::now() + Duration::millis(kStopDeadlineMs);
  while (!loop_->call([this] { return control_->quiet(); }) && platform::now() < until) ::usleep(10'000);
  loop_->call([this] {
    loop_->drop_tasks();
    control_.reset();
  });
  loop_->stop();
  thread_.join();
  files_.reset();
  store_.reset();
  ::unlink((config_.run_dir + "/vrampoold.pid").c_str());
  log::info("stopped");
}

std::uint16_t Daemon::data_port() {
  return ask([](Control& c) { return c.data_port(); });
}

void Daemon::write_pid_file() {
  const Status written = write_file(config_.run_dir + "/vrampoold.pid", std::to_string(::getpid()) + "\n", 0644);
  if (!written) log::warn("no pid file: {}", written.error().message);
}

}  // namespace vrampool::service
