// One segment's cache as the engine drives it: the machine that decides, and the hands that carry its orders out.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "paging/fetch_machine.h"
#include "service/data/cache_object.h"
#include "service/data/flight.h"
#include "service/data/peer_link.h"
#include "service/data/placement.h"

namespace vrampool::service::data {

class Engine;
class View;

// Fetches of up to this many pages go out on the engine's own connection, larger ones to movers.
inline constexpr std::uint32_t kEngineFetchPages = 8;

// Threads: the engine's. Inputs that arise while orders are carried out wait their turn.
class Cache final : public Asker {
 public:
  Cache(Engine& engine, CachePtr object, Record record, const Placement& placement, RequestNo first_request);
  ~Cache() override;

  SegmentId id() const { return object_->segment(); }
  CacheObject& object() { return *object_; }
  const Record& record() const { return record_; }
  const paging::FetchMachine& machine() const { return machine_; }
  void set_record(Record record) { record_ = std::move(record); }

  void feed(const paging::Input& input);
  bool can_take_fault() const { return machine_.can_take_fault(); }
  // Marks as present what the object held before this life.
  void adopt_valid();
  void relayout(const Placement&);

  using WantDone = std::function<void(vp_status)>;
  // VP_BUSY: too many at once.
  Status want(PageIndex first, std::uint64_t count, paging::Priority, WantDone done);

  void add_range(paging::ViewNo, PageIndex first, std::uint64_t count, paging::OnLoss, View&);
  void drop_range(paging::ViewNo);
  void fault(paging::ViewNo, PageIndex page);
  void tell_healed();
  // What had to wait: faults, and revokes that found a full ring.
  void feed_deferred();
  void revoke_again();
  void flight_ended(const Flight::Report&);
  // The view took its pages out of [first, count) (or is gone): a punch may wait for that.
  void revoked(View&, PageIndex first, std::uint64_t count);

  bool copy_out(std::uint64_t offset, std::span<std::byte> into) const;

  // Views and maps that use it.
  std::size_t users = 0;
  Instant last_used{};
  bool closed = false;

 private:
  struct Outstanding {
    RequestNo request{};
    PageIndex first{};
    std::uint32_t count = 0;
    MemberNo home{};
    std::shared_ptr<Flight> flight;  // null: on the engine's own connection
    unsigned mover = 0;
  };
  struct Range {
    paging::ViewNo no{};
    PageIndex first{};
    std::uint64_t count = 0;
    View* view = nullptr;
  };
  struct Punch {
    PageIndex first{};
    std::uint32_t count = 0;
    std::vector<View*> waits_for;
    bool revoke_again = false;
  };
  struct Measured {
    paging::ViewNo view{};
    PageIndex page{};
    std::int64_t since_ns = 0;
  };

  void pump();
  void carry(const paging::Order&);
  void fetch(const paging::Order&);
  void fetch_by_mover(const paging::Order&, MemberNo home);
  Status fetch_here(const paging::Order&, MemberNo home);
  void abandon(RequestNo);
  void reveal(const paging::Order&);
  void punch(const paging::Order&);
  void finish_punch(std::size_t index);
  void poison(const paging::Order&);
  void tell_loss(const paging::Order&, bool abort);
  void arrived(RequestNo, PageIndex first, std::uint32_t good, std::uint32_t corrupt);
  Outstanding take_outstanding(RequestNo);
  Range* range(paging::ViewNo);

  void answered(std::uint64_t cookie, const transport::Incoming&) override;
  void unanswered(std::uint64_t cookie, const Error&) override;

  Engine& engine_;
  CachePtr object_;
  Record record_;
  paging::FetchMachine machine_;
  paging::Outbox out_;
  std::vector<paging::Input> inputs_, inputs_now_;
  bool pumping_ = false;
  std::vector<Outstanding> outstanding_;
  std::vector<Range> ranges_;
  std::vector<Punch> punches_;
  std::vector<Measured> measured_;
  std::map<std::uint64_t, WantDone> wants_;
  std::uint64_t next_want_ = 0;
  std::uint64_t valid_counted_ = 0;
  unsigned next_mover_ = 0;
};

}  // namespace vrampool::service::data
