// The operator's verbs.
#include <boost/json.hpp>

#include "base/log.h"
#include "base/text.h"
#include "platform/clock.h"
#include "platform/machine.h"
#include "service/control.h"
#include "service/founding.h"

namespace vrampool::service {

namespace json = boost::json;

namespace {

constexpr std::int64_t kHearDeadlineMs = 2000;
constexpr std::int64_t kEnterDeadlineMs = 10'000;
constexpr std::uint32_t kBenchReadsMax = 1'000'000;

std::string first(const wire::AdminT& ask) { return ask.arguments.empty() ? "" : ask.arguments.front(); }

json::object sent_with(const wire::AdminT& ask) { return ask.json.empty() ? json::object{} : parse_status(ask.json); }

bool truth(const json::object& o, const char* key) {
  const auto* v = o.if_contains(key);
  return v && v->is_bool() && v->get_bool();
}

std::uint64_t number(const json::object& o, const char* key, std::uint64_t fallback) {
  const auto* v = o.if_contains(key);
  json::error_code failure;
  const auto n = v ? v->to_number<std::uint64_t>(failure) : fallback;
  return failure ? fallback : n;
}

std::string word(const json::object& o, const char* key) {
  const auto* v = o.if_contains(key);
  return v && v->is_string() ? std::string(v->get_string()) : "";
}

bool only_for_operators(const std::string& verb) {
  for (const char* v : {"init", "invite", "join", "leave", "forget", "promote", "donate"})
    if (verb == v) return true;
  return false;
}

Error no_pool() { return error(VP_NOT_FOUND, "this node is in no pool: run `vrampool init` or `vrampool join`"); }

}  // namespace

Task<LocalAnswer> Control::admin(SessionPtr session, wire::AdminT ask) {
  const std::string verb = ask.verb;
  if (only_for_operators(verb) && !session->who.operator_rights)
    co_return answer_status(error(VP_DENIED, "`vrampool {}` is for root and for the daemon's own user", verb));
  if (verb == "init") co_return co_await init(session);
  if (verb == "join") co_return co_await join(std::move(ask));
  if (verb == "status" || verb == "doctor") co_return co_await show(std::move(ask), session->who);
  if (!node_) co_return answer_status(no_pool());
  const bool force = truth(sent_with(ask), "force");
  if (verb == "invite") co_return invite();
  if (verb == "leave") co_return co_await leave(force);
  if (verb == "forget") co_return co_await forget(first(ask));
  if (verb == "promote") co_return co_await promote(first(ask), force);
  if (verb == "donate") co_return donate(first(ask));
  if (verb == "bench") co_return co_await bench(std::move(ask));
  co_return co_await show(std::move(ask), session->who);
}

// ---- entering and leaving a pool ----

Task<LocalAnswer> Control::init(SessionPtr) {
  if (node_ || entering_)
    co_return answer_status(error(VP_EXISTS, "this node is in a pool already: `vrampool leave` comes first"));
  const PoolKey key = PoolKey::make();
  Result<membership::DurableState> state =
      found_pool(birth_, config_, key.pool, advertised_addresses(config_, config_.control_port));
  if (!state) co_return answer_status(state.error());
  log::info("founding pool {}", to_text(key.pool));
  co_return co_await enter(std::move(*state), key, "init");
}

Task<LocalAnswer> Control::join(wire::AdminT ask) {
  if (node_ || entering_)
    co_return answer_status(error(VP_EXISTS, "this node is in a pool already: `vrampool leave` comes first"));
  std::string token = first(ask);
  if (const std::string key = word(sent_with(ask), "key"); !key.empty())
    token = key.substr(0, key.find('@')) + "@" + token;
  Result<Invitation> invitation = parse_token(token);
  if (!invitation) co_return answer_status(invitation.error());
  entering_ = true;
  Result<membership::DurableState> state =
      co_await join_pool(loop_, birth_, config_, *invitation, advertised_addresses(config_, config_.control_port));
  entering_ = false;
  if (!state) co_return answer_status(state.error());
  co_return co_await enter(std::move(*state), invitation->key, "join");
}

// Durable first: the key and the membership, then a new life as a member.
Task<LocalAnswer> Control::enter(membership::DurableState state, PoolKey key, const char* verb) {
  Status entered = write_pool_key(config_.state_dir, key);
  if (entered) entered = store_.replace(state);
  if (entered) entered = begin_life();
  if (entered) entered = start_node(std::move(state), key);
  if (!entered) {
    if (const Status wiped = store_.wipe(); !wiped) log::warn("{}", wiped.error().message);
    co_return answer_status(entered);
  }
  const Instant until = platform::now() + Duration::millis(kEnterDeadlineMs);
  const std::function<bool()> is_in = [this] {
    return node_ && node_->machine().is_current(node_->self()) && node_->machine().registry_is_current(platform::now());
  };
  while (!is_in() && platform::now() < until) co_await loop_.sleep(Duration::millis(20));
  if (!is_in())
    co_return answer_status(error(
        VP_TIMEOUT, "admitted, but the coordinator has not taken this node into its view yet: see `vrampool status`"));
  json::object o = document(verb);
  o["pool"] = to_text(key.pool);
  o["member"] = node_->self().member.value;
  o["name"] = config_.node_name;
  o["address"] = node_->addresses().front();
  co_return answer_json(o);
}

LocalAnswer Control::invite() {
  json::object o = document("invite");
  const std::string address = node_->addresses().front();
  const std::string token = to_token({address, node_->key()});
  o["address"] = address;
  o["key"] = token.substr(0, token.find('@'));
  o["token"] = token;
  o["expires_unix_ms"] = nullptr;
  return answer_json(o);
}

Task<LocalAnswer> Control::leave(bool force) {
  if (!force && node_->pieces().accounts().pieces() > 0)
    co_return answer_status(error(
        VP_BUSY, "this node holds {} of the pool's data: remove those segments first, or say --force and lose them",
        format_bytes(node_->pieces().accounts().used_bytes())));
  Members::What what = membership::Leave{};
  const Result<membership::CommandDone> done = co_await node_->members().run(std::move(what));
  if (!done) co_return answer_status(done.error());
  co_return answer_status({}, "this node has left the pool");
}

std::optional<MemberNo> Control::member_named(const std::string& name) const {
  for (const auto& entry : node_->machine().roster().entries)
    if (entry->name == name || std::to_string(entry->member) == name) return MemberNo{entry->member};
  return {};
}

Task<LocalAnswer> Control::forget(std::string name) {
  const auto member = member_named(name);
  if (!member) co_return answer_status(error(VP_NOT_FOUND, "no node \"{}\" on the roster: see `vrampool nodes`", name));
  const Status forgotten = co_await node_->forget(*member);
  co_return answer_status(forgotten, name + " is forgotten");
}

Task<LocalAnswer> Control::promote(std::string name, bool force) {
  const MemberNo member = name.empty() ? node_->self().member : member_named(name).value_or(MemberNo{});
  if (member.value == 0)
    co_return answer_status(error(VP_NOT_FOUND, "no node \"{}\" on the roster: see `vrampool nodes`", name));
  const std::string who = node_->members().name_of(member);
  wire::PromoteRequestT ask;
  ask.force = force;
  Reply<Result<Body>> reply = node_->ask(member, body_of(std::move(ask)));
  Result<Body> answer = co_await reply;
  if (!answer) co_return answer_status(answer.error());
  const auto* outcome = answer->AsPieceReply();
  if (!outcome) co_return answer_status(error(VP_CORRUPT, "{} gave an unexpected answer", who));
  if (outcome->status != VP_OK)
    co_return answer_status(Error{static_cast<vp_status>(outcome->status), outcome->message});
  co_return answer_status({}, who + " coordinates the pool now");
}

LocalAnswer Control::donate(const std::string& size) {
  Config changed = config_;
  changed.capacity_text = size;
  if (const Status possible = complete_config(changed); !possible) return answer_status(possible);
  config_.capacity_text = size;
  config_.capacity_bytes = changed.capacity_bytes;
  node_->pieces().set_capacity(changed.capacity_bytes);
  log::info("this node donates {} now", format_bytes(changed.capacity_bytes));
  return answer_status({}, fmt::format("this node donates {} now; memory.capacity in the configuration makes it last",
                                       format_bytes(changed.capacity_bytes)));
}

// ---- showing ----

// Everybody at once; those who do not answer in time are left out.
Task<Heard> Control::hear_members() {
  Heard heard;
  if (!node_) co_return heard;
  std::vector<std::pair<MemberNo, Reply<Result<Body>>>> asked;
  for (const auto& v : node_->machine().view().members) {
    const MemberNo member{v->member};
    if (v->state != wire::MemberState::alive) continue;
    if (member == node_->self().member)
      heard[member] = node_report(scene());
    else
      asked.emplace_back(
          member, node_->peers().call(member, body_of(wire::StatusRequestT{}), Duration::millis(kHearDeadlineMs)));
  }
  for (auto& [member, reply] : asked) {
    Result<Body> answer = co_await reply;
    const auto* status = answer ? answer->AsStatusReply() : nullptr;
    if (status) heard[member] = parse_status(status->json);
  }
  co_return heard;
}

Task<LocalAnswer> Control::show(wire::AdminT ask, Who who) {
  const std::string verb = ask.verb;
  json::object o = document(verb.c_str());
  if (verb == "jobs") {
    o["jobs"] = jobs_report(scene());
    co_return answer_json(o);
  }
  const Heard heard = co_await hear_members();
  if (verb == "status" || verb == "doctor") {
    o["health"] = health_report(scene(), heard);
    o["node"] = node_report(scene());
    o["pool"] = pool_report(scene());
    o["nodes"] = nodes_report(scene(), heard);
    o["jobs"] = jobs_report(scene());
  } else if (verb == "nodes") {
    o["nodes"] = nodes_report(scene(), heard);
  } else if (verb == "ls") {
    o["segments"] = segments_report(scene(), heard, first(ask), who);
  } else if (verb == "df") {
    std::uint64_t capacity = 0, used = 0;
    for (const auto& [member, node] : heard)
      capacity += number(node, "capacity_bytes", 0), used += number(node, "used_bytes", 0);
    o["nodes"] = nodes_report(scene(), heard);
    o["capacity_bytes"] = capacity;
    o["used_bytes"] = used;
    o["free_bytes"] = capacity - std::min(capacity, used);
  } else if (verb == "inspect") {
    const Result<Record> record = node_->segments().find(first(ask), {}, who);
    if (!record) co_return answer_status(record.error());
    o["segment"] = segment_report(scene(), heard, **record);
  } else {
    co_return answer_status(error(VP_UNSUPPORTED, "this daemon does not know the verb \"{}\"", verb));
  }
  co_return answer_json(o);
}

Task<LocalAnswer> Control::bench(wire::AdminT ask) {
  if (first(ask) != "page-read" || ask.arguments.size() < 2)
    co_return answer_status(error(VP_INVALID, "bench knows: page-read NODE"));
  const auto member = member_named(ask.arguments[1]);
  if (!member)
    co_return answer_status(
        error(VP_NOT_FOUND, "no node \"{}\" on the roster: see `vrampool nodes`", ask.arguments[1]));
  const json::object sent = sent_with(ask);
  DataPlane::BenchAsk b;
  b.peer = *member;
  b.count = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(number(sent, "count", 1000), 1, kBenchReadsMax));
  b.bytes = static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(number(sent, "bytes", kPageBytes), 1, kPageBytes * kPagesPerMessageMax));
  b.echo = !sent.contains("echo") || truth(sent, "echo");
  auto done = loop_.reply<Result<DataPlane::BenchAnswer>>();
  node_->data().bench_page_read(b, [done](Result<DataPlane::BenchAnswer> r) { done.set(std::move(r)); });
  Result<DataPlane::BenchAnswer> answer = co_await done;
  if (!answer) co_return answer_status(answer.error());
  json::object o = document("bench");
  json::array ns;
  for (const std::uint32_t n : answer->ns) ns.push_back(json::value(n));
  o["ns"] = std::move(ns);
  o["cpu_ns"] = answer->cpu_ns;
  co_return answer_json(o);
}

}  // namespace vrampool::service
