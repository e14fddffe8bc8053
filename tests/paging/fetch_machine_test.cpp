// FetchMachine, one behaviour at a time.
#include "paging/fetch_machine.h"

#include <doctest/doctest.h>

#include <vector>

using namespace vrampool;
using namespace vrampool::paging;

namespace {

// A machine with a clock and the orders of the last input.
struct Rig {
  FetchMachine m;
  Instant now{1'000'000};
  std::vector<Order> orders;

  explicit Rig(FetchOptions o) : m(std::move(o)) {}
  static FetchOptions options(std::uint64_t pages = 1000) {
    FetchOptions o;
    o.pages = pages;
    o.extents = {{PageIndex{0}, pages / 2, SourceNo{1}}, {PageIndex{pages / 2}, pages - pages / 2, SourceNo{2}}};
    return o;
  }
  const std::vector<Order>& give(const Input& in) {
    orders.clear();
    Outbox out;
    bool more = m.step(in, now, out);
    for (int rounds = 0; rounds < 10000; ++rounds) {
      for (const Order& o : out) orders.push_back(o);
      if (!more) break;
      out.clear();
      more = m.step(Resume{}, now, out);
    }
    CHECK_FALSE(more);
    return orders;
  }
  void pass(Duration d) {
    now = now + d;
    give(Tick{});
  }
  std::vector<Order> all(OrderKind k) const {
    std::vector<Order> found;
    for (const Order& o : orders)
      if (o.kind == k) found.push_back(o);
    return found;
  }
  Order only(OrderKind k) const {
    const auto found = all(k);
    REQUIRE(found.size() == 1);
    return found[0];
  }
  void answer(const Order& fetch) {
    CHECK(m.lands(fetch.request, fetch.first, fetch.count));
    give(Arrived{fetch.request, fetch.first, fetch.count, Verdict::good});
  }
  void view(std::uint64_t no, OnLoss loss = OnLoss::poison) {
    give(AddView{ViewNo{no}, PageIndex{0}, m.pages(), loss});
  }
  void fault(std::uint64_t view_no, std::uint64_t page) { give(Fault{ViewNo{view_no}, PageIndex{page}}); }
  PageState at(std::uint64_t p) const { return m.inspect(PageIndex{p}); }
  void bring(std::uint64_t page) {
    fault(1, page);
    answer(only(OrderKind::fetch));
  }
};

}  // namespace

TEST_CASE("a fault asks the page's source once and the answer reveals it") {
  Rig r(Rig::options());
  r.view(1);
  r.fault(1, 700);
  const Order f = r.only(OrderKind::fetch);
  CHECK(f.first == PageIndex{700});
  CHECK(f.count == 1);
  CHECK(f.source == SourceNo{2});
  CHECK(r.at(700) == PageState::filling);
  r.answer(f);
  const Order shown = r.only(OrderKind::reveal);
  CHECK(shown.view == ViewNo{1});
  CHECK(shown.first == PageIndex{700});
  CHECK(r.at(700) == PageState::valid);
}

TEST_CASE("two views that fault the same page share one request and are both revealed") {
  Rig r(Rig::options());
  r.view(1);
  r.view(2);
  r.fault(1, 3);
  const Order f = r.only(OrderKind::fetch);
  r.fault(2, 3);
  r.fault(2, 3);
  CHECK(r.orders.empty());
  r.answer(f);
  CHECK(r.all(OrderKind::reveal).size() == 2);
  CHECK(r.m.counts().fetched == 1);
}

TEST_CASE("a landing is claimed once; doubled, late and foreign answers change nothing") {
  Rig r(Rig::options());
  r.view(1);
  r.fault(1, 3);
  const Order f = r.only(OrderKind::fetch);
  CHECK(r.m.lands(f.request, PageIndex{3}, 1));
  CHECK_FALSE(r.m.lands(f.request, PageIndex{3}, 1));
  CHECK_FALSE(r.m.lands(f.request, PageIndex{4}, 1));
  CHECK_FALSE(r.m.lands(RequestNo{999}, PageIndex{3}, 1));
  r.give(Arrived{RequestNo{999}, PageIndex{3}, 1, Verdict::good});
  CHECK(r.at(3) == PageState::filling);
  r.give(Arrived{f.request, PageIndex{3}, 1, Verdict::good});
  r.give(Arrived{f.request, PageIndex{3}, 1, Verdict::good});
  CHECK(r.at(3) == PageState::valid);
  CHECK_FALSE(r.m.lands(f.request, PageIndex{3}, 1));
  CHECK(r.m.counts().late == 2);
}

TEST_CASE("no answer in time: the old request is abandoned before a fresh number goes out") {
  Rig r(Rig::options());
  r.view(1);
  r.fault(1, 3);
  const Order old = r.only(OrderKind::fetch);
  r.pass(Duration::millis(500));
  REQUIRE(r.orders.size() == 2);
  CHECK(r.orders[0].kind == OrderKind::abandon);
  CHECK(r.orders[0].request == old.request);
  CHECK(r.orders[1].kind == OrderKind::fetch);
  CHECK(r.orders[1].request != old.request);
  CHECK_FALSE(r.m.lands(old.request, PageIndex{3}, 1));
  r.give(Arrived{old.request, PageIndex{3}, 1, Verdict::good});
  CHECK(r.at(3) == PageState::filling);
}

TEST_CASE("a slow link is not buried in repeats") {
  Rig r(Rig::options());
  r.view(1, OnLoss::wait);
  r.fault(1, 3);
  for (int i = 0; i < 600; ++i) r.pass(Duration::millis(100));  // a minute of silence
  CHECK(r.m.counts().retries >= 6);
  CHECK(r.m.counts().retries <= 20);
}

TEST_CASE("damaged bytes are asked for again, and give up after some tries") {
  Rig r(Rig::options());
  r.view(1);
  r.fault(1, 3);
  for (int i = 0; i < 2; ++i) {
    r.give(Arrived{r.only(OrderKind::fetch).request, PageIndex{3}, 1, Verdict::corrupt});
    CHECK(r.all(OrderKind::reveal).empty());
  }
  r.give(Arrived{r.only(OrderKind::fetch).request, PageIndex{3}, 1, Verdict::corrupt});
  CHECK(r.only(OrderKind::poison).first == PageIndex{3});
  CHECK(r.only(OrderKind::lost).status == VP_CORRUPT);
  CHECK(r.only(OrderKind::reveal).view == ViewNo{1});
}

TEST_CASE("a failure that may pass is tried again later, one that will not ends the wait") {
  Rig r(Rig::options());
  r.view(1);
  r.fault(1, 3);
  r.give(Failed{r.only(OrderKind::fetch).request, VP_BUSY});
  CHECK(r.all(OrderKind::fetch).empty());
  r.pass(Duration::millis(500));
  r.give(Failed{r.only(OrderKind::fetch).request, VP_STALE});
  CHECK(r.only(OrderKind::lost).status == VP_STALE);
  CHECK(r.at(3) == PageState::poisoned);
}

TEST_CASE("at the deadline the request lets go before the page is poisoned") {
  auto o = Rig::options();
  o.retry_every = Duration::seconds(60);
  o.fault_deadline = Duration::seconds(2);
  Rig r(o);
  r.view(1);
  r.fault(1, 3);
  r.pass(Duration::seconds(2));
  REQUIRE(r.orders.size() == 4);
  CHECK(r.orders[0].kind == OrderKind::abandon);
  CHECK(r.orders[1].kind == OrderKind::poison);
  CHECK(r.orders[2].kind == OrderKind::lost);
  CHECK(r.orders[2].status == VP_TIMEOUT);
  CHECK(r.orders[3].kind == OrderKind::reveal);
}

TEST_CASE("a lost source: poison for one view, failure for another, waiting for the third; healed by a punch") {
  Rig r(Rig::options());
  r.view(1, OnLoss::poison);
  r.view(2, OnLoss::abort);
  r.view(3, OnLoss::wait);
  r.fault(3, 3);
  r.fault(2, 3);
  r.fault(1, 3);
  r.give(SourceLost{SourceNo{1}});
  CHECK(r.only(OrderKind::abandon).first == PageIndex{3});
  CHECK(r.only(OrderKind::fail).view == ViewNo{2});
  CHECK(r.only(OrderKind::fail).status == VP_LOST);
  CHECK(r.only(OrderKind::reveal).view == ViewNo{1});
  CHECK(r.m.counts().waiters == 1);
  r.fault(1, 600);  // the other source lives
  r.answer(r.only(OrderKind::fetch));
  r.give(SourceBack{SourceNo{1}});
  const Order gone = r.only(OrderKind::punch);
  CHECK(gone.first == PageIndex{3});
  CHECK(r.all(OrderKind::fetch).empty());
  r.give(Punched{gone.first, gone.count});
  r.answer(r.only(OrderKind::fetch));
  CHECK(r.only(OrderKind::reveal).view == ViewNo{3});
}

TEST_CASE("a sequential reader gets a growing window of overlapping requests, a jump resets it") {
  Rig r(Rig::options(10000));
  r.view(1);
  std::uint64_t asked = 0, widest = 0, most_open = 0;
  std::vector<bool> mapped(10000);
  std::vector<Order> open;
  const auto note = [&] {
    for (const Order& f : r.all(OrderKind::fetch)) {
      open.push_back(f);
      asked += f.count;
      widest = std::max<std::uint64_t>(widest, f.count);
    }
    for (const Order& s : r.all(OrderKind::reveal))
      for (std::uint64_t i = 0; i < s.count; ++i) mapped[s.first.value + i] = true;
  };
  for (std::uint64_t p = 0; p < 4000; ++p) {
    if (mapped[p]) continue;
    r.fault(1, p);
    note();
    while (!mapped[p]) {
      most_open = std::max<std::uint64_t>(most_open, open.size());
      REQUIRE_FALSE(open.empty());
      const Order f = open.front();
      open.erase(open.begin());
      r.answer(f);
      note();
    }
  }
  CHECK(most_open >= 4);
  CHECK(widest == kPagesPerMessageMax);
  CHECK(asked >= 4000);
  CHECK(asked <= 4000 + 2 * 512);
  CHECK(r.m.counts().faults < 200);
  r.fault(1, 9000);
  CHECK(r.only(OrderKind::fetch).count == 1);
}

TEST_CASE("a fetch never crosses from one source to the next") {
  Rig r(Rig::options(100));
  r.give(Want{WantToken{1}, PageIndex{0}, 100});
  const auto fetches = r.all(OrderKind::fetch);
  REQUIRE(fetches.size() == 2);
  CHECK(fetches[0].count == 50);
  CHECK(fetches[1].first == PageIndex{50});
  CHECK(fetches[1].source == SourceNo{2});
}

TEST_CASE("a want ends when every page is there, and says when some were lost") {
  Rig r(Rig::options(100));
  r.give(Want{WantToken{1}, PageIndex{0}, 100});
  const auto fetches = r.all(OrderKind::fetch);
  r.answer(fetches[1]);
  CHECK(r.all(OrderKind::want_done).empty());
  r.answer(fetches[0]);
  CHECK(r.only(OrderKind::want_done).status == VP_OK);
  Rig lossy(Rig::options(100));
  lossy.give(SourceLost{SourceNo{2}});
  lossy.give(Want{WantToken{2}, PageIndex{0}, 100});
  lossy.answer(lossy.only(OrderKind::fetch));
  CHECK(lossy.only(OrderKind::want_done).status == VP_LOST);
  CHECK(lossy.at(49) == PageState::valid);
}

TEST_CASE("a resident fill pins what comes and gives the pins back when it fails") {
  Rig r(Rig::options(100));
  r.give(Want{WantToken{1}, PageIndex{0}, 40, Priority::resident});
  r.answer(r.only(OrderKind::fetch));
  CHECK(r.only(OrderKind::want_done).status == VP_OK);
  CHECK(r.m.counts().pinned == 40);
  r.give(Evict{100});
  CHECK(r.orders.empty());
  r.give(Want{WantToken{2}, PageIndex{30}, 70, Priority::resident});
  r.give(SourceLost{SourceNo{2}});
  CHECK(r.all(OrderKind::want_done).empty());  // its first pages still come
  for (int i = 0; i < 30; ++i) r.pass(Duration::millis(500));
  r.give(CancelWant{WantToken{2}});
  CHECK(r.m.counts().pinned == 40);
}

TEST_CASE("nobody sends the pages of a want: it ends with a time-out") {
  Rig r(Rig::options(100));
  r.give(Want{WantToken{1}, PageIndex{0}, 10});
  vp_status ended = VP_OK;
  for (int i = 0; i < 25; ++i) {
    r.pass(Duration::millis(500));
    if (!r.all(OrderKind::want_done).empty()) ended = r.only(OrderKind::want_done).status;
  }
  CHECK(ended == VP_TIMEOUT);
  CHECK(r.m.counts().wants == 0);
}

TEST_CASE("eviction: second chance first, never pinned, never filling; a fault meanwhile waits for the punch") {
  Rig r(Rig::options(1000));
  r.view(1);
  for (const std::uint64_t p : {10, 20, 30}) r.bring(p);
  r.fault(1, 40);
  const Order filling = r.only(OrderKind::fetch);
  r.give(Pin{PageIndex{20}, 1});
  r.give(Evict{100});
  const auto punches = r.all(OrderKind::punch);
  REQUIRE(punches.size() == 2);
  CHECK(punches[0].first == PageIndex{10});
  CHECK(punches[1].first == PageIndex{30});
  CHECK(r.at(10) == PageState::evicting);
  r.fault(1, 10);
  CHECK(r.orders.empty());
  r.give(Punched{PageIndex{10}, 1});
  CHECK(r.only(OrderKind::fetch).first == PageIndex{10});
  r.answer(filling);
  CHECK(r.at(40) == PageState::valid);
  r.give(Punched{PageIndex{40}, 1});  // nobody ordered that
  CHECK(r.at(40) == PageState::valid);
}

TEST_CASE("a page faulted since the last round outlives one that was not") {
  Rig r(Rig::options(1000));
  r.view(1);
  for (const std::uint64_t p : {10, 20, 30}) r.bring(p);
  r.give(Evict{1});  // takes all second chances, then page 10
  CHECK(r.only(OrderKind::punch).first == PageIndex{10});
  r.fault(1, 20);
  r.give(Evict{1});
  CHECK(r.only(OrderKind::punch).first == PageIndex{30});
}

TEST_CASE("half-landed pages that nobody waits for are given back") {
  Rig r(Rig::options(100));
  r.give(Want{WantToken{1}, PageIndex{0}, 10});
  const Order f = r.only(OrderKind::fetch);
  r.give(CancelWant{WantToken{1}});
  r.give(Failed{f.request, VP_UNREACHABLE});
  CHECK(r.only(OrderKind::abandon).request == f.request);
  CHECK(r.only(OrderKind::punch).count == 10);
}

TEST_CASE("an answer may come in parts") {
  Rig r(Rig::options(100));
  r.view(1);
  r.give(Want{WantToken{1}, PageIndex{0}, 10});
  const Order f = r.only(OrderKind::fetch);
  r.fault(1, 2);
  r.give(Arrived{f.request, PageIndex{2}, 3, Verdict::good});
  CHECK(r.only(OrderKind::reveal).count == 3);
  r.give(Arrived{f.request, PageIndex{0}, 2, Verdict::good});
  r.give(Arrived{f.request, PageIndex{4}, 2, Verdict::good});  // overlaps: ignored
  CHECK(r.at(5) == PageState::filling);
  r.give(Arrived{f.request, PageIndex{5}, 5, Verdict::good});
  CHECK(r.only(OrderKind::want_done).status == VP_OK);
}

TEST_CASE("a full outbox stops nothing for ever and loses nothing") {
  auto o = Rig::options(10000);
  o.requests_max = 300;
  Rig r(o);
  for (std::uint64_t v = 1; v <= 200; ++v) r.view(v);
  for (std::uint64_t v = 2; v <= 200; ++v) r.fault(v, 77);
  r.fault(1, 77);
  r.pass(Duration::millis(0));
  r.give(Tick{});
  const auto f = r.m.counts();
  CHECK(f.waiters == 200);
  Outbox out;
  CHECK(r.m.step(Arrived{RequestNo{1}, PageIndex{77}, 1, Verdict::good}, r.now, out));
  CHECK(out.full());
  std::size_t shown = out.size();
  for (bool more = true; more;) {
    out.clear();
    more = r.m.step(Resume{}, r.now, out);
    shown += out.size();
  }
  CHECK(shown == 200);
}

TEST_CASE("waiters beyond the limit are not taken; a view that goes takes its waits along") {
  auto o = Rig::options();
  o.waiters_max = 2;
  Rig r(o);
  r.view(1);
  r.fault(1, 1);
  r.fault(1, 100);
  CHECK_FALSE(r.m.can_take_fault());
  r.fault(1, 200);
  CHECK(r.m.counts().waiters == 2);
  r.give(DropView{ViewNo{1}});
  CHECK(r.m.counts().waiters == 0);
  r.fault(1, 300);
  CHECK(r.orders.empty());
}

TEST_CASE("faults keep their own share of the requests") {
  auto o = Rig::options(10000);
  o.requests_max = 4;
  o.requests_for_faults = 2;
  Rig r(o);
  r.view(1);
  r.give(Want{WantToken{1}, PageIndex{0}, 5000});
  CHECK(r.all(OrderKind::fetch).size() == 2);
  r.fault(1, 9000);
  CHECK(r.only(OrderKind::fetch).first == PageIndex{9000});
}

TEST_CASE("after a restart adopted pages are there and no others") {
  Rig r(Rig::options(200));
  r.view(1);
  const std::uint64_t bits[] = {0b1011, 1};
  r.give(Adopt{PageIndex{64}, bits});
  CHECK(r.m.counts().valid == 4);
  CHECK(r.at(64) == PageState::valid);
  CHECK(r.at(66) == PageState::absent);
  CHECK(r.at(128) == PageState::valid);
  r.fault(1, 64);
  CHECK(r.only(OrderKind::reveal).count == 2);
}

TEST_CASE("after a move pages are asked for at their new host") {
  Rig r(Rig::options(100));
  r.view(1);
  r.give(Relayout{{{PageIndex{0}, 100, SourceNo{7}}}});
  r.fault(1, 3);
  CHECK(r.only(OrderKind::fetch).source == SourceNo{7});
  r.give(Relayout{{{PageIndex{0}, 99, SourceNo{8}}}});  // does not cover the segment: ignored
  r.fault(1, 50);
  CHECK(r.only(OrderKind::fetch).source == SourceNo{7});
}

TEST_CASE("when nothing is owed there is no deadline, and waiting for slots does not spin") {
  Rig r(Rig::options());
  CHECK(r.m.next_deadline().ns == INT64_MAX);
  r.view(1);
  r.fault(1, 3);
  CHECK(r.m.next_deadline() == r.now + Duration::millis(500));
  r.answer(r.only(OrderKind::fetch));
  CHECK(r.m.next_deadline().ns == INT64_MAX);
}
