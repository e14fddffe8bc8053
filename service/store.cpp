// Identity, lives and the store's thread; the membership machine's tables are in store_membership.cpp.
#include "service/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "base/log.h"
#include "platform/machine.h"
#include "service/files.h"
#include "service/pool_key.h"

namespace vrampool::service {
namespace {

std::string hex(const platform::MachineId& id) { return to_hex(id.hi, id.lo); }

Result<UniqueFd> lock_directory(const std::string& directory) {
  const std::string path = directory + "/lock";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return error_errno(errno, path + ": the state directory cannot be used by this user");
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return error(VP_BUSY, "{}: another vrampoold uses this state directory: stop it, or choose another --state-dir",
               directory);
}

// Beside the memory directory: says whose memory it is, as long as the memory is there.
std::string memory_mark(const std::string& memory_dir) { return memory_dir + ".incarnation"; }

std::string platform_boot() {
  const auto boot = platform::boot_id();
  return boot ? hex(*boot) : "";
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::string& state_dir) {
  VP_CHECK(make_directories(state_dir, 0700));
  VP_TRY(lock, lock_directory(state_dir));
  VP_TRY(db, Database::open(state_dir + "/registry.db"));
  std::unique_ptr<Store> store(new Store(state_dir, std::move(db)));
  store->lock_ = std::move(lock);
  VP_CHECK(store->create_tables());
  VP_CHECK(store->bind_to_machine());
  store->thread_ = std::make_unique<Workers>("vp-store", 1);
  return store;
}

Store::~Store() {
  closing_ = true;
  thread_.reset();
}

Status Store::create_tables() {
  return db_.execute(
      "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS records(member INTEGER, life INTEGER, count INTEGER, body BLOB, PRIMARY KEY(member, "
      "life, count)) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS changes(term_count INTEGER, term_member INTEGER, seq INTEGER, body BLOB, PRIMARY "
      "KEY(term_count, term_member, seq)) WITHOUT ROWID;");
}

Status Store::bind_to_machine() {
  VP_TRY(known, text("machine"));
  const auto machine = platform::machine_id();
  const std::string here = machine ? hex(*machine) : "unknown";
  if (known.empty()) {
    const auto id = platform::random_id();
    return db_.transaction([&]() -> Status {
      VP_CHECK(put("machine", here));
      return put("node", hex(id));
    });
  }
  if (known == here || known == "unknown" || here == "unknown") return {};
  return error(VP_INVALID,
               "{}: this state directory belongs to another machine (a copied disk?): remove it and join as a new node",
               directory_);
}

Result<Birth> Store::begin_life(const std::string& memory_dir) {
  VP_TRY(node_text, text("node"));
  VP_TRY(life, number("life", 0));
  VP_TRY(incarnation, number("incarnation", 0));
  VP_TRY(boot, text("boot"));
  const auto node = parse_hex128(node_text);
  if (!node)
    return error(VP_CORRUPT, "{}/registry.db: holds no node id: move the state directory away and join again",
                 directory_);
  const auto mark = read_file(memory_mark(memory_dir), 64);
  const std::string boot_now = platform_boot();
  const bool same_memory =
      incarnation != 0 && boot == boot_now && mark && *mark == node_text.substr(0, 16) + std::to_string(incarnation);
  ++life;
  if (!same_memory) incarnation = life;
  VP_CHECK(make_directories(memory_dir, 0700));
  const auto write = [&]() -> Status {
    VP_CHECK(put("life", life));
    VP_CHECK(put("incarnation", incarnation));
    return put("boot", boot_now);
  };
  VP_CHECK(db_.transaction(write));
  if (!same_memory)
    VP_CHECK(write_file(memory_mark(memory_dir), node_text.substr(0, 16) + std::to_string(incarnation), 0600));
  return Birth{NodeId{(*node)[0], (*node)[1]}, Life{static_cast<std::uint64_t>(life)},
               Incarnation{static_cast<std::uint64_t>(incarnation)}};
}

void Store::persist(membership::Persist order, std::function<void()> done) {
  const auto shared = std::make_shared<const membership::Persist>(std::move(order));
  const bool queued = thread_->run([this, shared, done = std::move(done)] {
    Status written = apply(*shared);
    for (int pause = 0; !written && !closing_; ++pause) {
      if (!failing_.exchange(true))
        log::error("{}: cannot write the registry ({}): trying again every second", directory_,
                   written.error().message);
      ::usleep(pause % 10 == 0 ? 1000 : 100'000);
      if (pause % 10 == 0) written = apply(*shared);
    }
    if (written && failing_.exchange(false)) log::info("{}: the registry can be written again", directory_);
    if (written) done();
  });
  if (!queued && !closing_)
    log::error("{}: the disk does not keep up: {} changes are waiting", directory_, kWorkerQueueMax);
}

void Store::drain() {
  std::promise<void> reached;
  if (thread_->run([&] { reached.set_value(); })) reached.get_future().wait();
}

Status Store::wipe() {
  drain();
  VP_CHECK(remove_pool_key(directory_));
  const auto id = platform::random_id();
  return db_.transaction([&]() -> Status {
    VP_CHECK(
        db_.execute("DELETE FROM records; DELETE FROM changes; DELETE FROM meta WHERE key NOT IN ('machine', 'life')"));
    return put("node", hex(id));
  });
}

Status Store::replace(const membership::DurableState& s) {
  drain();
  membership::Persist all;
  all.ops = {membership::SetIdentity{s.pool, s.node, s.self},
             membership::SetPromise{s.promise},
             membership::SetCommitted{s.committed},
             membership::SetRoster{s.roster},
             membership::SetView{s.view},
             membership::EraseAllChanges{}};
  for (const auto& [id, record] : s.records) all.ops.push_back(membership::PutRecord{record});
  for (const auto& change : s.pending) all.ops.push_back(membership::PutChange{change});
  return apply(all);
}

Status Store::void_memory() { return put("incarnation", 0); }

Result<std::int64_t> Store::number(const char* key, std::int64_t fallback) {
  Statement s = db_.prepare("SELECT value FROM meta WHERE key = ?");
  s.bind(1, std::string_view(key));
  VP_TRY(found, s.step());
  return found ? s.number(0) : fallback;
}

Result<std::string> Store::text(const char* key) {
  Statement s = db_.prepare("SELECT value FROM meta WHERE key = ?");
  s.bind(1, std::string_view(key));
  VP_TRY(found, s.step());
  return found ? s.text(0) : std::string();
}

Status Store::put(const char* key, std::int64_t value) {
  return db_.prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)").bind(1, std::string_view(key)).bind(2, value).run();
}

Status Store::put(const char* key, const std::string& value) {
  return db_.prepare("INSERT OR REPLACE INTO meta VALUES(?, ?)")
      .bind(1, std::string_view(key))
      .bind(2, std::string_view(value))
      .run();
}

}  // namespace vrampool::service
