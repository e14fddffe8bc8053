// vrampoold as an object: can be started inside a test, several at a time.
#pragma once

#include <memory>
#include <string>

#include "service/control.h"

namespace vrampool::service {

// Threads: start, stop and the questions from any one thread. Owns the control thread and everything behind it.
class Daemon {
 public:
  // Errors: those of configuration, state directory, socket and ports; one line each. `start_data_plane` is
  // DataPlane::start, or a test's own.
  static Result<std::unique_ptr<Daemon>> start(Config config, StartDataPlane start_data_plane);
  ~Daemon();
  // Clean and bounded: programs are told, jobs are cancelled, memory stays for the next life.
  void stop();

  const Config& config() const { return config_; }
  const std::string& socket_path() const { return config_.socket_path; }
  std::uint16_t control_port() const { return config_.control_port; }
  std::uint16_t data_port();
  // Runs `fn(Control&)` on the control thread and waits.
  template <class F>
  auto ask(F fn) {
    return loop_->call([this, &fn] { return fn(*control_); });
  }

 private:
  explicit Daemon(Config config) : config_(std::move(config)) {}
  Status open(StartDataPlane start_data_plane);
  void write_pid_file();

  Config config_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Workers> files_;
  std::unique_ptr<Control> control_;  // made and destroyed on the control thread
  std::thread thread_;
};

// The program: flags, log, signals. Returns the exit code.
int run_daemon(int argc, char** argv, StartDataPlane start_data_plane);

}  // namespace vrampool::service
