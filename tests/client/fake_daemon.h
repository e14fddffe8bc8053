// A small daemon for the SDK's tests: the real local protocol over a real socket, bytes out of memory, real faults.
//
// Threads: one of its own; what tests set meanwhile is atomic or behind the pool's lock. Stopping and starting another
// over the same pool is a daemon restart: objects live on, sessions and views do not.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "client/link.h"
#include "platform/poller.h"
#include "platform/shared_object.h"
#include "platform/view_faults.h"
#include "wire/data_header.h"

namespace vrampool::client::testing {

struct FakeSegment {
  wire::RecordT record;
  std::vector<std::byte> bytes;
  platform::SharedObject piece, cache;  // `piece` is sealed and here; `cache` fills by faults
  std::vector<bool> valid;              // of the cache
  std::set<std::uint64_t> lost;         // pages that cannot be had
  bool removed = false;
};

// What outlives a daemon.
class FakePool {
 public:
  FakeSegment& add(const std::string& name, std::uint64_t bytes, std::vector<wire::TensorT> tensors = {});
  FakeSegment* find(const std::string& name);
  FakeSegment* find(const SegmentId& id);
  // Byte `at` of every segment made by add().
  static std::byte byte_at(std::uint64_t at) { return static_cast<std::byte>(at * 7 + at / kPageBytes * 13); }

  std::recursive_mutex mutex;
  std::map<SegmentId, std::unique_ptr<FakeSegment>> segments;
  std::map<std::string, SegmentId> names;
  std::uint64_t next_segment = 1, next_view = 1;

  // How the daemon behaves.
  std::atomic<bool> direct{false};        // maps are direct parts of the piece
  std::atomic<bool> hold_reads{false};    // data requests get no answer
  std::atomic<bool> hold_faults{false};   // faults get no answer
  std::atomic<bool> silent{false};        // control requests get no answer
  std::atomic<int> busy_answers{0};       // so many data requests are refused as busy first
  std::atomic<bool> refuse_views{false};  // AttachView fails with VP_STALE
  std::atomic<unsigned> fault_deadline_ms{10000};
  // What it saw.
  std::atomic<int> attaches{0}, reattached_views{0}, reads{0}, writes{0}, unmaps{0}, aborts{0}, seals{0}, faults{0},
      pins{0}, swallowed{0}, attached_views{0};
};

class FakeDaemon {
 public:
  FakeDaemon(FakePool& pool, std::string socket_path);
  ~FakeDaemon();  // as kill -9 looks to clients: sockets close, nothing is said

 private:
  struct Control {
    std::unique_ptr<Link> link;
    std::uint64_t client = 0, secret = 0;
  };
  struct Data {
    UniqueFd fd;
    std::vector<std::byte> in;
  };
  struct View {
    SegmentId segment;
    std::uint64_t offset = 0, bytes = 0;
    std::unique_ptr<platform::ViewFaults> faults;
    std::size_t control = 0;
    int on_loss = 0;
  };
  void run();
  void accept_all();
  void serve(std::size_t index);
  wire::LocalBodyUnion answer(std::size_t index, Envelope& ask, std::vector<int>& descriptors);
  wire::LocalBodyUnion map(const wire::MapSegmentT& ask, std::vector<int>& descriptors);
  wire::LocalBodyUnion attach_view(std::size_t index, const wire::AttachViewT& ask, std::vector<UniqueFd>& descriptors);
  wire::LocalBodyUnion create(const wire::CreateSegmentT& ask);
  bool serve_data(Data& data);
  void answer_data(Data& data, const wire::DataHeader& header, std::span<const std::byte> payload);
  void serve_faults(std::uint64_t number, View& view);
  void serve_page(std::uint64_t number, View& view, std::uint64_t offset);
  static wire::LocalBodyUnion done(vp_status status, const std::string& message = "fake");

  FakePool& pool_;
  const std::string path_;
  UniqueFd listener_;
  std::optional<platform::Doorbell> bell_;
  std::vector<Control> controls_;
  std::vector<Data> data_;
  std::map<std::uint64_t, View> views_;
  std::vector<UniqueFd> kept_;  // descriptors on their way out
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace vrampool::client::testing
