// What a daemon does for its clients and jobs with named segments: create, seal, abort, remove, rename.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "allocator/placement.h"
#include "service/data_plane.h"
#include "service/members.h"

namespace vrampool::service {

// Who asks. Principals are names; `operator_rights`: root, or the daemon's own user.
struct Who {
  std::string principal;
  bool operator_rights = false;
};
bool may_read(const Who&, const wire::RecordT&);
bool may_change(const Who&, const wire::RecordT&);  // remove, rename, replace by a newer one of that name

struct CreateAsk {
  std::string name;
  std::uint64_t bytes = 0;  // rounded up to pages
  wire::SegmentKind kind = wire::SegmentKind::sealed;
  std::string placement = "spread";
  std::vector<std::string> nodes;
  std::uint16_t mode = 0644;
  std::uint8_t copies = 1;
  std::vector<std::unique_ptr<wire::TensorT>> tensors;
  std::vector<std::uint64_t> cut_points;
  wire::LayoutMode layout = wire::LayoutMode::aligned;
  std::string format = "raw";
};

class SegmentsOwner {
 public:
  virtual ~SegmentsOwner() = default;
  // A request to any member, this node included.
  virtual Reply<Result<Body>> ask(MemberNo member, Body request) = 0;
};

// Threads: control thread.
class Segments {
 public:
  Segments(Loop& loop, Members& members, DataPlane& data, SegmentsOwner& owner)
      : loop_(loop), members_(members), data_(data), owner_(owner) {}

  // Reserved at its hosts, then registered as `creating`. Nothing is left of it after an error.
  Task<Result<Record>> create(CreateAsk ask, Who who);
  // Frozen everywhere, registered as sealed (the name points here from then on), sealed everywhere. With `parts`, its
  // tensors, files, ranges and format replace those given at create.
  Task<Result<Record>> seal(SegmentId id, std::unique_ptr<wire::RecordT> parts);
  // Drops a segment that is being created. Repeats until the coordinator took it.
  Task<Status> abort(SegmentId id);
  Task<Status> remove(SegmentId id);
  Task<Status> rename(std::string from, std::string to, Who who);

  // Published, readable. Errors: VP_NOT_FOUND, VP_DENIED.
  Result<Record> find(const std::string& name, SegmentId id, const Who& who) const;
  // Free space of every member that answers.
  Task<Result<std::vector<allocator::Candidate>>> candidates();

 private:
  Result<wire::RecordT> draft(CreateAsk& ask, const Who& who);
  Result<allocator::PlacementRequest> placement_of(const CreateAsk& ask,
                                                   std::span<const allocator::Candidate> nodes) const;
  Task<Status> reserve(Record record);
  Task<> unreserve(Record record);
  using MakeAsk = std::function<Body(const wire::PieceT&)>;
  using TakeReply = std::function<void(std::size_t, wire::PieceReplyT&)>;
  Task<Status> for_each_piece(Record record, MakeAsk make, TakeReply take);

  Loop& loop_;
  Members& members_;
  DataPlane& data_;
  SegmentsOwner& owner_;
};

}  // namespace vrampool::service
