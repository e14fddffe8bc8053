#include "paging_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "paging/fetch_machine.h"

namespace vrampool::paging::sim {
namespace {

// What a page of the object holds. A good page p holds p + 1.
constexpr std::int64_t kHole = 0, kPoison = -1, kHalf = -2, kGarbage = -3;
constexpr Duration kStorm = Duration::millis(3000), kCalm = Duration::millis(1500);
constexpr Duration kFaultDeadline = Duration::millis(200), kTickEvery = Duration::millis(4);

struct Random {
  std::uint64_t x;
  std::uint64_t next() {
    std::uint64_t z = (x += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  Duration between(std::int64_t low_us, std::int64_t high_us) {
    return Duration::micros(low_us + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high_us - low_us))));
  }
};

// How bad this seed's world is.
struct Climate {
  double loss, doubled, straggler, damage, cut, refuse, crash;
  std::uint64_t pages, cap, evict_every_us, threads;
  bool tiny;
  explicit Climate(Random& r) {
    const auto some = [&](double most) { return r.chance(0.4) ? 0.0 : most * static_cast<double>(r.below(100)) / 100; };
    loss = some(0.2), doubled = some(0.3), straggler = some(0.2), damage = some(0.2), cut = some(0.15);
    refuse = some(0.1), crash = some(1.0);
    pages = 16 + r.below(400);
    cap = 4 + r.below(pages);
    evict_every_us = 500 + r.below(20000);
    threads = 2 + r.below(5);
    tiny = r.chance(0.3);
  }
};

struct Thread {
  std::size_t view = 0;  // index into World::views_
  bool sequential = false;
  std::uint64_t page = 0;
  bool blocked = false;
  Instant since{};
  std::uint64_t turn = 0;  // events of an earlier block are void
};

struct SimView {
  ViewNo no{};
  OnLoss on_loss{};
  std::uint64_t first = 0, end = 0;
  std::vector<bool> mapped;
  bool alive = true;
};

// One copy of an answer on its way into memory.
struct Body {
  RequestNo request{};
  std::uint64_t first = 0;
  std::uint32_t count = 0, cut_at = 0;
  std::vector<bool> damaged;
  bool lands = false;  // in the object; else scratch
};

class World {
 public:
  explicit World(std::uint64_t seed)
      : random_{seed * 2654435761u + 1},
        climate_(random_),
        memory_(climate_.pages, kHole),
        owner_(climate_.pages),
        pinned_(climate_.pages) {
    boot({});
    for (int i = 0; i < 3; ++i) open_view();
    for (std::uint64_t i = 0; i < climate_.threads; ++i) start_thread(i % views_.size());
    every(kTickEvery, [this] { input(Tick{}); });
    every(Duration::micros(static_cast<std::int64_t>(climate_.evict_every_us)), [this] { pressure(); });
    every(Duration::millis(7), [this] { pin_something(); });
    every(Duration::millis(11), [this] { want_something(); });
    every(Duration::millis(60), [this] { lose_source(); });
    every(Duration::millis(150), [this] { crash_something(); });
  }

  Outcome go() {
    while (out_.wrong.empty() && !events_.empty() && now_ < end()) {
      Event e = std::move(const_cast<Event&>(events_.top()));
      events_.pop();
      now_ = e.at;
      if (!calm_ && now_ >= Instant{} + kStorm) calm_down();
      e.what();
      ++out_.events;
      if (out_.wrong.empty() && out_.events % 16 == 0) check_everything();
    }
    if (out_.wrong.empty()) check_quiet();
    out_.unseed = random_.next();
    return out_;
  }

 private:
  struct Event {
    Instant at;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& o) const { return at != o.at ? at > o.at : order > o.order; }
  };

  static Instant end() { return Instant{} + kStorm + kCalm; }
  void after(Duration d, std::function<void()> what) { events_.push({now_ + d, ++order_, std::move(what)}); }
  void every(Duration d, std::function<void()> what) {
    after(d, [this, d, what] { what(), every(d, what); });
  }
  void wrong(std::string what) {
    if (out_.wrong.empty()) out_.wrong = fmt::format("at {} us: {}", now_.ns / 1000, what);
  }
  void trace(std::uint64_t word) { out_.trace = (out_.trace ^ word) * 0x100000001b3ull + 7; }

  // ---- the machine and its orders ----

  void boot(std::span<const std::uint64_t> valid) {
    FetchOptions o;
    o.pages = climate_.pages;
    const std::uint64_t half = climate_.pages / 3;
    o.extents = {{PageIndex{0}, half, SourceNo{0}}, {PageIndex{half}, climate_.pages - half, SourceNo{1}}};
    o.first_request = RequestNo{++life_ << 32};
    o.fault_deadline = kFaultDeadline;
    o.retry_every = Duration::millis(15);
    o.requests_max = climate_.tiny ? 3 : 32;
    o.requests_for_faults = climate_.tiny ? 1 : 8;
    o.read_ahead_pages_max = 64;
    o.waiters_max = climate_.tiny ? 3 : 4096;
    machine_ = std::make_unique<FetchMachine>(o);
    input(Adopt{PageIndex{0}, valid});
  }

  void input(const Input& in) {
    Outbox out;
    trace(in.index());
    bool more = machine_->step(in, now_, out);
    for (int rounds = 0;; ++rounds) {
      const Outbox orders = out;
      for (const Order& o : orders) obey(o);
      if (!more || !out_.wrong.empty()) return;
      if (rounds > 10000) return wrong("an outbox that never empties");
      out.clear();
      more = machine_->step(Resume{}, now_, out);
    }
  }

  void obey(const Order& o) {
    if (!out_.wrong.empty()) return;
    trace(static_cast<std::uint64_t>(o.kind) << 56 ^ o.first.value << 24 ^ o.count << 8 ^ o.request.value ^
          o.view.value << 40);
    switch (o.kind) {
      case OrderKind::fetch:
        return obey_fetch(o);
      case OrderKind::abandon:
        return obey_abandon(o);
      case OrderKind::reveal:
        return obey_reveal(o);
      case OrderKind::punch:
        return obey_punch(o);
      case OrderKind::poison:
        return obey_poison(o);
      case OrderKind::fail:
        return obey_fail(o);
      case OrderKind::want_done:
        return obey_want_done(o);
      case OrderKind::lost:
        return;
    }
  }

  void obey_fetch(const Order& o) {
    for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p) {
      if (owner_[p].value != 0) return wrong(fmt::format("page {} is fetched twice", p));
      if (good_[p]) return wrong(fmt::format("page {} is fetched though it is there", p));
      owner_[p] = o.request;
    }
    in_flight_[o.request] = {o.source, o.first.value, o.count};
    if (random_.chance(bad(climate_.loss))) return;
    const int copies = random_.chance(bad(climate_.doubled)) ? 2 : 1;
    for (int i = 0; i < copies; ++i) send_answer(o);
  }

  void send_answer(const Order& o) {
    const bool slow = random_.chance(bad(climate_.straggler));
    const Duration trip = slow ? random_.between(10000, 80000) : random_.between(20, 2000);
    if (random_.chance(bad(climate_.refuse))) {
      const vp_status why = random_.chance(0.2) ? VP_STALE : VP_BUSY;
      return after(trip, [this, r = o.request, why] { fail_request(r, why); });
    }
    auto body = std::make_shared<Body>();
    *body = {o.request, o.first.value, o.count, o.count, std::vector<bool>(o.count), false};
    if (random_.chance(bad(climate_.cut))) body->cut_at = static_cast<std::uint32_t>(random_.below(o.count));
    for (std::uint32_t i = 0; i < o.count; ++i) body->damaged[i] = random_.chance(bad(climate_.damage));
    after(trip, [this, body] { header_arrives(body); });
  }

  void fail_request(RequestNo r, vp_status why) {
    // The machine takes its pages back with an abandon order.
    if (in_flight_.count(r) != 0)
      input(Failed{r, why});
    else
      input(Failed{r, VP_BUSY});
  }

  void obey_abandon(const Order& o) {
    forget_request(o.request);
    for (auto& b : landing_)
      if (b->request == o.request) b->lands = false;
  }

  void forget_request(RequestNo r) {
    const auto found = in_flight_.find(r);
    if (found == in_flight_.end()) return;
    for (std::uint64_t p = found->second.first; p < found->second.first + found->second.count; ++p)
      if (owner_[p] == r) owner_[p] = {};
    in_flight_.erase(found);
  }

  void obey_reveal(const Order& o) {
    for (SimView& v : views_) {
      if (v.no != o.view || !v.alive) continue;
      if (o.first.value < v.first || o.first.value + o.count > v.end) return wrong("a reveal beyond its view");
      for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p) v.mapped[p] = true;
      wake(o.first.value, o.count, &v);
    }
  }

  void obey_punch(const Order& o) {
    for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p) {
      if (owner_[p].value != 0) return wrong(fmt::format("page {} is punched while it is being filled", p));
      if (pinned_[p] > 0 && good_[p]) return wrong(fmt::format("page {} is punched though it is pinned", p));
      good_[p] = false;  // the durable bit goes first
    }
    after(random_.between(1, 300), [this, o, life = life_] {
      if (life != life_) return;  // it died before; its successor punches what is not good
      for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p) {
        memory_[p] = kHole;
        for (SimView& v : views_) v.mapped[p] = false;
      }
      wake(o.first.value, o.count, nullptr);
      input(Punched{o.first, o.count});
      // Told twice: harmless, unless the same page is on its way out once more.
      if (random_.chance(0.1) && machine_->counts().evicting == 0) input(Punched{o.first, o.count});
    });
  }

  void obey_poison(const Order& o) {
    for (std::uint64_t p = o.first.value; p < o.first.value + o.count; ++p) {
      if (owner_[p].value != 0) return wrong(fmt::format("page {} is poisoned while it is being filled", p));
      memory_[p] = kPoison;
    }
  }

  void obey_fail(const Order& o) {
    for (std::size_t i = 0; i < views_.size(); ++i) {
      if (views_[i].no != o.view || !views_[i].alive) continue;
      if (views_[i].on_loss != OnLoss::abort) return wrong("a view that did not choose abort was failed");
      ++out_.aborted;
      after({}, [this, i, no = o.view] {
        if (views_[i].no == no) replace_view(i);
      });
    }
  }

  void obey_want_done(const Order& o) {
    const auto found = wants_.find(o.token);
    if (found == wants_.end()) return wrong("a want ended twice");
    const Want w = found->second;
    wants_.erase(found);
    if (w.priority != Priority::resident || o.status != VP_OK) return;
    for (std::uint64_t p = w.first.value; p < w.first.value + w.count; ++p) {
      if (machine_->inspect(PageIndex{p}) != PageState::valid)
        return wrong(fmt::format("resident page {} is not there", p));
      ++pinned_[p];
    }
    after(random_.between(100, 20000), [this, w, life = life_] {
      if (life != life_) return;
      for (std::uint64_t p = w.first.value; p < w.first.value + w.count; ++p) --pinned_[p];
      input(Unpin{w.first, w.count});
    });
  }

  // ---- the network ----

  void header_arrives(const std::shared_ptr<Body>& b) {
    b->lands = machine_->lands(b->request, PageIndex{b->first}, b->count);
    landing_.push_back(b);
    page_lands(b, 0, false);
  }

  // Each page is half there for a while.
  void page_lands(const std::shared_ptr<Body>& b, std::uint32_t i, bool half_done) {
    if (i == b->cut_at || i == b->count) return body_ends(b);
    const std::uint64_t p = b->first + i;
    const std::int64_t good = static_cast<std::int64_t>(p) + 1;
    if (b->lands) memory_[p] = !half_done ? kHalf : b->damaged[i] ? kGarbage : good;
    after(random_.between(1, 40), [this, b, i, half_done] { page_lands(b, half_done ? i + 1 : i, !half_done); });
  }

  void body_ends(const std::shared_ptr<Body>& b) {
    std::erase(landing_, b);
    if (b->cut_at < b->count) return fail_request(b->request, VP_UNREACHABLE);
    if (!b->lands) return;
    // Another thread checks the bytes; its verdicts come later, in parts.
    for (std::uint32_t i = 0; i < b->count;) {
      std::uint32_t n = 1;
      while (i + n < b->count && b->damaged[i + n] == b->damaged[i] && !random_.chance(0.1)) ++n;
      after(random_.between(1, 200), [this, b, i, n] { verdict(*b, i, n); });
      i += n;
    }
  }

  void verdict(const Body& b, std::uint32_t i, std::uint32_t n) {
    const bool current = in_flight_.count(b.request) != 0;
    const bool good = !b.damaged[i];
    if (current)
      for (std::uint64_t p = b.first + i; p < b.first + i + n; ++p) {
        owner_[p] = {};
        good_[p] = good;
      }
    if (current && (settled_[b.request] += n) == in_flight_[b.request].count) {
      in_flight_.erase(b.request);
      settled_.erase(b.request);
    }
    input(Arrived{b.request, PageIndex{b.first + i}, n, good ? Verdict::good : Verdict::corrupt});
  }

  // ---- clients ----

  void open_view() {
    SimView v;
    v.no = ViewNo{++last_view_};
    v.on_loss = static_cast<OnLoss>(random_.below(3));
    v.first = random_.chance(0.7) ? 0 : random_.below(climate_.pages / 2);
    v.end = random_.chance(0.7) ? climate_.pages : v.first + 1 + random_.below(climate_.pages - v.first);
    v.mapped.resize(climate_.pages);
    views_.push_back(v);
    input(AddView{v.no, PageIndex{v.first}, v.end - v.first, v.on_loss});
  }

  // The client died (or chose to): its view goes, its threads start anew in another one.
  void replace_view(std::size_t i) {
    input(DropView{views_[i].no});
    open_view();
    views_[i] = views_.back();
    views_.pop_back();
    for (Thread& t : threads_)
      if (t.view == i) t.blocked = false, ++t.turn, go_on(t, random_.between(10, 500));
  }

  void start_thread(std::size_t view) {
    threads_.reserve(64);
    threads_.push_back({view, random_.chance(0.5), 0, false, {}, 0});
    go_on(threads_.back(), random_.between(1, 500));
  }

  void go_on(Thread& t, Duration d) {
    after(d, [this, &t, turn = t.turn] {
      if (t.turn == turn) next_load(t);
    });
  }

  void next_load(Thread& t) {
    const SimView& v = views_[t.view];
    const std::uint64_t size = v.end - v.first;
    t.page = t.sequential && !random_.chance(0.02) ? (t.page + 1 < v.end && t.page >= v.first ? t.page + 1 : v.first)
                                                   : v.first + random_.below(size);
    load(t);
  }

  void load(Thread& t) {
    const SimView& v = views_[t.view];
    if (!v.mapped[t.page]) return fault(t);
    const std::int64_t got = memory_[t.page];
    ++out_.loads;
    if (got == kPoison && v.on_loss == OnLoss::poison)
      ++out_.poison_loads;
    else if (got != static_cast<std::int64_t>(t.page) + 1)
      return wrong(fmt::format("a load of page {} returned {} in a view with on_loss {}", t.page, got,
                               static_cast<int>(v.on_loss)));
    go_on(t, random_.between(1, 400));
  }

  void fault(Thread& t) {
    t.blocked = true;
    t.since = now_;
    ++t.turn;
    deliver_fault(t, t.turn);
  }

  void deliver_fault(Thread& t, std::uint64_t turn) {
    after(random_.between(1, 30), [this, &t, turn] {
      if (t.turn != turn) return;
      if (!machine_->can_take_fault()) return deliver_fault(t, turn);
      input(Fault{views_[t.view].no, PageIndex{t.page}});
    });
  }

  void wake(std::uint64_t first, std::uint64_t n, const SimView* only) {
    for (Thread& t : threads_) {
      if (!t.blocked || t.page < first || t.page >= first + n) continue;
      if (only != nullptr && &views_[t.view] != only) continue;
      t.blocked = false;
      ++t.turn;
      after(random_.between(1, 20), [this, &t, turn = t.turn] {
        if (t.turn == turn) load(t);
      });
    }
  }

  // ---- trouble ----

  double bad(double p) const { return calm_ ? 0 : p; }

  void pressure() {
    const std::uint64_t there = machine_->counts().valid + machine_->counts().poisoned;
    if (there > climate_.cap && !calm_) input(Evict{there - climate_.cap});
  }

  void pin_something() {
    if (calm_) return;
    const std::uint64_t first = random_.below(climate_.pages),
                        n = 1 + random_.below(std::min<std::uint64_t>(8, climate_.pages - first));
    for (std::uint64_t p = first; p < first + n; ++p) ++pinned_[p];
    input(Pin{PageIndex{first}, n});
    after(random_.between(1000, 30000), [this, first, n, life = life_] {
      if (life != life_) return;
      for (std::uint64_t p = first; p < first + n; ++p) --pinned_[p];
      input(Unpin{PageIndex{first}, n});
    });
  }

  void want_something() {
    if (calm_ || !machine_->can_take_want()) return;
    const std::uint64_t first = random_.below(climate_.pages);
    const Want w{WantToken{++last_want_}, PageIndex{first}, 1 + random_.below(climate_.pages - first),
                 random_.chance(0.3) ? Priority::resident : Priority::prefetch};
    wants_[w.token] = w;
    input(w);
    if (random_.chance(0.1)) {
      after(random_.between(10, 5000), [this, w, life = life_] {
        if (life == life_) input(CancelWant{w.token});
      });
    }
  }

  void lose_source() {
    if (calm_ || !random_.chance(climate_.crash * 0.3)) return;
    const SourceNo s{static_cast<std::uint16_t>(random_.below(2))};
    input(SourceLost{s});
    after(random_.between(1000, 400000), [this, s] {
      if (!calm_) input(SourceBack{s});
    });
  }

  void crash_something() {
    if (calm_ || !random_.chance(climate_.crash * 0.3)) return;
    if (random_.chance(0.6)) return replace_view(random_.below(views_.size()));
    restart();
  }

  // The daemon dies and the next one adopts the object: only pages whose durable bit is set are kept.
  void restart() {
    in_flight_.clear();
    settled_.clear();
    wants_.clear();
    for (auto& b : landing_) b->lands = false;
    std::fill(owner_.begin(), owner_.end(), RequestNo{});
    std::fill(pinned_.begin(), pinned_.end(), 0);
    std::vector<std::uint64_t> valid((climate_.pages + 63) / 64);
    for (std::uint64_t p = 0; p < climate_.pages; ++p) {
      if (good_[p])
        valid[p / 64] |= 1ull << p % 64;
      else {
        memory_[p] = kHole;
        for (SimView& v : views_) v.mapped[p] = false;
      }
    }
    boot(valid);
    for (const SimView& v : views_) input(AddView{v.no, PageIndex{v.first}, v.end - v.first, v.on_loss});
    wake(0, climate_.pages, nullptr);
  }

  void calm_down() {
    calm_ = true;
    // What the storm left behind runs into its deadlines first; then the sources are back for good.
    after(kFaultDeadline + kFaultDeadline / 2, [this] {
      input(SourceBack{SourceNo{0}});
      input(SourceBack{SourceNo{1}});
    });
  }

  // ---- checks ----

  void check_everything() {
    std::uint64_t seen[5] = {};
    for (std::uint64_t p = 0; p < climate_.pages; ++p) {
      const PageState s = machine_->inspect(PageIndex{p});
      ++seen[static_cast<int>(s)];
      if (s == PageState::valid && memory_[p] != static_cast<std::int64_t>(p) + 1)
        return wrong(fmt::format("valid page {} holds {}", p, memory_[p]));
      if ((s == PageState::filling) != (owner_[p].value != 0))
        return wrong(fmt::format("page {}: state {} and owner {} disagree", p, static_cast<int>(s), owner_[p].value));
      for (const SimView& v : views_)
        if (v.mapped[p] && (s == PageState::absent || s == PageState::filling))
          return wrong(fmt::format("page {} is mapped in state {}", p, static_cast<int>(s)));
    }
    const FetchCounts& c = machine_->counts();
    if (c.valid != seen[2] || c.filling != seen[1] || c.evicting != seen[3] || c.poisoned != seen[4])
      return wrong("counts and pages disagree");
    for (const Thread& t : threads_) {
      const bool may_wait = views_[t.view].on_loss == OnLoss::wait && !calm_;
      const Duration most = climate_.tiny ? kFaultDeadline * 4 : kFaultDeadline + Duration::millis(30);
      if (t.blocked && !may_wait && now_ - t.since > most && !(calm_ && now_ < Instant{} + kStorm + kFaultDeadline * 3))
        return wrong(fmt::format("a view waits for page {} since {} us", t.page, t.since.ns / 1000));
    }
  }

  void check_quiet() {
    const FetchCounts& c = machine_->counts();
    if (c.poisoned != 0) return wrong("poison outlived the return of its source");
    if (!wants_.empty()) return wrong("a want never ended");
    for (std::uint64_t p = 0; p < climate_.pages; ++p)
      for (const SimView& v : views_)
        if (v.mapped[p] && memory_[p] != static_cast<std::int64_t>(p) + 1)
          wrong(fmt::format("when all is quiet page {} shows {}", p, memory_[p]));
  }

  struct Flight {
    SourceNo source{};
    std::uint64_t first = 0;
    std::uint32_t count = 0;
  };

  Random random_;
  Climate climate_;
  Outcome out_;
  Instant now_{};
  bool calm_ = false;
  std::uint64_t order_ = 0, last_view_ = 0, last_want_ = 0, life_ = 0;
  std::priority_queue<Event> events_;
  std::unique_ptr<FetchMachine> machine_;
  std::vector<std::int64_t> memory_;
  std::vector<RequestNo> owner_;  // the current request of a page, as the orders told
  std::vector<int> pinned_;
  std::map<std::uint64_t, bool> good_;  // the durable bit
  std::map<RequestNo, Flight> in_flight_;
  std::map<RequestNo, std::uint32_t> settled_;
  std::vector<std::shared_ptr<Body>> landing_;
  std::map<WantToken, Want> wants_;
  std::vector<SimView> views_;
  std::vector<Thread> threads_;
};

}  // namespace

Outcome run(std::uint64_t seed) { return World(seed).go(); }

}  // namespace vrampool::paging::sim
