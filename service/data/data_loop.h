// One data loop: its thread, its table of pieces and placements, its connections to peers, and the connections it
// serves. The engine's loop and the movers are instances of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "service/data/buffers.h"
#include "service/data/event_loop.h"
#include "service/data/link.h"
#include "service/data/node.h"
#include "service/data/peer_link.h"
#include "service/data/placement.h"
#include "transport/tcp/socket.h"

namespace vrampool::service::data {

// Data connections that have not shown a ticket yet.
inline constexpr std::size_t kUnadmittedMax = 256;

class ClientOps;

// Threads: post() any; the rest on the loop's thread. Ownership: borrows the node; owns its links.
class DataLoop {
 public:
  static Result<std::unique_ptr<DataLoop>> create(Node&, unsigned index);
  ~DataLoop();

  void start();
  // Ends the thread; then the destructor closes what is left.
  void stop() { events_->stop(); }
  CommandNo post(std::function<void()> command) { return events_->post(std::move(command)); }
  unsigned index() const { return index_; }

  Node& node() { return node_; }
  EventLoop& events() { return *events_; }
  BufferPool& buffers() { return buffers_; }
  // Numbers of reads; unique in this life.
  RequestNo next_read() {
    return RequestNo{(static_cast<std::uint64_t>(index_) + 1) << kRequestCounterBits | ++reads_};
  }

  // ---- who lives ----
  void set_members(const wire::ViewT& view, const std::vector<Peer>& peers);
  bool alive(Sender who) const;
  bool alive(MemberNo who) const { return lives_.contains(who); }
  const std::map<MemberNo, Life>& lives() const { return lives_; }
  // When their memory was last empty, as the view says.
  const std::map<MemberNo, Incarnation>& incarnations() const { return incarnations_; }
  Epoch epoch() const { return epoch_; }
  // The connection to a member, made when it is first wanted. Null: no such peer.
  PeerLink* peer(MemberNo);

  // ---- what is where ----
  struct Segment {
    Record record;  // null: only pieces of it are known
    Placement placement;
    std::vector<PiecePtr> pieces;  // on this node
  };
  Segment* find(SegmentId);
  void add_piece(PiecePtr);
  void drop_piece(PieceId);
  void open_record(Record);
  void close_record(SegmentId);
  // The piece of this node that holds the whole range, or null.
  Piece* find_piece(SegmentId, std::uint64_t offset, std::uint64_t length);
  PiecePtr share(const Piece& piece) const { return std::const_pointer_cast<Piece>(piece.shared_from_this()); }
  void refresh_placements();

  // ---- sending what must stay put ----
  // Keeps a piece or a buffer until the message with this tag was released.
  std::uint64_t hold(PiecePtr);
  std::uint64_t hold(Buffer);
  void release(std::uint64_t tag);

  // ---- links that others opened ----
  std::size_t unadmitted() const;
  void adopt(std::unique_ptr<Link>);
  std::unique_ptr<Link> surrender(Link*);
  void accept_peers(transport::tcp::Listener* listener);
  void adopt_client(ClientNo, UniqueFd);
  void drop_client(ClientNo);
  void allow(ClientNo client, SegmentId segment) { allowed_[client].insert(segment); }
  bool allowed(ClientNo, SegmentId) const;
  ClientOps& ops() { return *ops_; }
  void bury_soon() { events_->wake_at({}); }

  // Set by the engine: copies a range out of a cache if all of it is there.
  std::function<bool(SegmentId, std::uint64_t offset, std::span<std::byte>)> from_cache;
  // Set by the engine: runs at the tick; answers when it wants to run again.
  std::function<Instant(Instant)> engine_tick;

 private:
  class Acceptor;
  struct Held {
    PiecePtr piece;
    Buffer buffer;
  };
  DataLoop(Node& node, unsigned index, std::unique_ptr<EventLoop> events);
  Instant tick(Instant now);
  Instant end_the_unadmitted(Instant now);
  void bury();
  std::uint64_t hold(Held);

  Node& node_;
  unsigned index_;
  std::unique_ptr<EventLoop> events_;
  BufferPool buffers_;
  std::uint64_t reads_ = 0;

  Epoch epoch_{};
  std::map<MemberNo, Life> lives_;
  std::map<MemberNo, Incarnation> incarnations_;
  std::map<MemberNo, Peer> peers_;
  std::map<MemberNo, std::unique_ptr<PeerLink>> peer_links_;
  std::unordered_map<SegmentId, Segment> segments_;

  std::vector<Held> held_;
  std::vector<std::uint32_t> held_free_;
  std::vector<std::unique_ptr<Link>> served_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<ClientOps> ops_;
  std::map<ClientNo, std::set<SegmentId>> allowed_;
};

}  // namespace vrampool::service::data
