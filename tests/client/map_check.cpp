// Maps every tensor of a segment and compares each byte with a file, also while daemons die: for integration tests.
//
// map_check --socket S --name N --file F [--lazy | --resident | --both] [--loop SECONDS] [--stride] [--threads N]
//           [--fork] [--expect-loss] [--on-loss poison|wait|abort]
// One JSON line: bytes_checked, wrong_bytes, rounds, maps, errors, callbacks, pages_lost, reconnects, sticky, fork.
// Exit: 0 as expected, 1 wrong bytes or unexpected errors, 2 usage. A segment byte is compared with the file's byte at
// the same place in the tensor: the file is the source, so tensors are found through `--offset-of NAME=FILE_OFFSET`, or
// are the file's own image (layout file), or --raw compares the whole segment with the file from byte 0.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "vrampool/vrampool.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string socket, name, file;
  bool lazy = true, resident = false, stride = false, fork = false, expect_loss = false, raw = false;
  double loop_seconds = 0;
  unsigned threads = 1;
  vp_on_loss on_loss = VP_ON_LOSS_POISON;
  std::map<std::string, std::uint64_t> file_offsets;
};

struct Counts {
  std::atomic<std::uint64_t> bytes{0}, wrong{0}, poisoned{0}, rounds{0}, maps{0}, errors{0}, callbacks{0},
      pages_lost{0};
  std::atomic<int> sticky{0};
  std::string fork = "none";
};

struct File {
  const unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
};

struct Piece {  // segment bytes that must equal file bytes
  std::string name;
  std::uint64_t segment_offset = 0, file_offset = 0, bytes = 0;
};

[[noreturn]] void usage(const char* why) {
  std::fprintf(stderr, "map_check: %s\n", why);
  std::exit(2);
}

vp_on_loss on_loss_of(const std::string& text) {
  if (text == "poison") return VP_ON_LOSS_POISON;
  if (text == "wait") return VP_ON_LOSS_WAIT;
  if (text == "abort") return VP_ON_LOSS_ABORT;
  usage("--on-loss is poison, wait or abort");
}

void take_offset(Options& o, const std::string& text) {
  const auto at = text.rfind('=');
  if (at == std::string::npos) usage("--offset-of NAME=FILE_OFFSET");
  o.file_offsets[text.substr(0, at)] = std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

bool take_flag(Options& o, const std::string& a) {
  if (a == "--lazy") return o.lazy = true, o.resident = false, true;
  if (a == "--resident") return o.lazy = false, o.resident = true, true;
  if (a == "--both") return o.lazy = o.resident = true;
  if (a == "--stride") return o.stride = true;
  if (a == "--fork") return o.fork = true;
  if (a == "--expect-loss") return o.expect_loss = true;
  if (a == "--raw") return o.raw = true;
  return false;
}

void take_value(Options& o, const std::string& a, const std::string& value) {
  if (a == "--socket")
    o.socket = value;
  else if (a == "--name")
    o.name = value;
  else if (a == "--file")
    o.file = value;
  else if (a == "--loop")
    o.loop_seconds = std::strtod(value.c_str(), nullptr);
  else if (a == "--threads")
    o.threads = std::max(1, std::atoi(value.c_str()));
  else if (a == "--on-loss")
    o.on_loss = on_loss_of(value);
  else if (a == "--offset-of")
    take_offset(o, value);
  else
    usage(("unknown option " + a).c_str());
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    if (take_flag(o, argv[i])) continue;
    if (i + 1 == argc) usage("a value is missing");
    take_value(o, argv[i], argv[i + 1]);
    ++i;
  }
  if (o.name.empty() || o.file.empty()) usage("--name and --file are needed");
  return o;
}

File map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  struct stat s {};
  if (fd < 0 || ::fstat(fd, &s) != 0 || s.st_size == 0) usage(("cannot read " + path).c_str());
  void* p = ::mmap(nullptr, static_cast<std::size_t>(s.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  if (p == MAP_FAILED) usage(("cannot map " + path).c_str());
  return {static_cast<const unsigned char*>(p), static_cast<std::uint64_t>(s.st_size)};
}

std::uint64_t little_u64(const unsigned char* p) {
  std::uint64_t v = 0;
  for (int i = 7; i >= 0; --i) v = v << 8 | p[i];
  return v;
}

// Where a safetensors file keeps tensor `name`: a small scan of its JSON header, trusted because the test wrote it.
bool safetensors_offset(const File& f, const std::string& name, std::uint64_t& offset) {
  if (f.bytes < 8) return false;
  const std::uint64_t header = little_u64(f.data);
  if (header > f.bytes - 8) return false;
  const std::string json(reinterpret_cast<const char*>(f.data) + 8, header);
  const auto at = json.find("\"" + name + "\"");
  const auto offsets = at == std::string::npos ? at : json.find("\"data_offsets\"", at);
  const auto bracket = offsets == std::string::npos ? offsets : json.find('[', offsets);
  if (bracket == std::string::npos) return false;
  offset = 8 + header + std::strtoull(json.c_str() + bracket + 1, nullptr, 10);
  return true;
}

class Checker {
 public:
  Checker(const Options& o, Counts& c) : o_(o), c_(c), file_(map_file(o.file)) {}

  bool connect() {
    auto options = VP_INIT(vp_connect_options);
    options.socket_path = o_.socket.empty() ? nullptr : o_.socket.c_str();
    options.program = "map_check";
    if (vp_connect(&options, &session_) != VP_OK) return complain("connecting");
    vp_set_error_callback(
        session_, [](const vp_loss*, void* n) { ++*static_cast<std::atomic<std::uint64_t>*>(n); }, &c_.callbacks);
    if (vp_open(session_, o_.name.c_str(), &segment_) != VP_OK) return complain("opening");
    return list_pieces();
  }

  // One thread's work; keeps one lazy mapping for the whole run, so that it lives through daemon deaths.
  void run(unsigned thread) {
    const auto stop = Clock::now() + std::chrono::duration<double>(o_.loop_seconds);
    do {
      if (o_.lazy) check_round(VP_MAP_LAZY, thread);
      if (o_.resident) check_round(VP_MAP_RESIDENT, thread);
      ++c_.rounds;
    } while (Clock::now() < stop);
  }

  void check_fork() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(child());
    int status = 0;
    ::waitpid(pid, &status, 0);
    c_.fork = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "ok" : "failed " + std::to_string(status);
    if (c_.fork != "ok") ++c_.errors;
  }

  std::uint64_t reconnects() const {
    auto info = VP_INIT(vp_session_info);
    return vp_session_status(session_, &info) == VP_OK ? info.reconnects : 0;
  }
  void disconnect() { vp_disconnect(session_); }

 private:
  bool complain(const char* doing) {
    std::fprintf(stderr, "map_check: %s: %s\n", doing, vp_last_error());
    ++c_.errors;
    return false;
  }

  bool list_pieces() {
    auto info = VP_INIT(vp_segment_info);
    if (vp_segment_status(segment_, &info) != VP_OK) return complain("asking");
    if (o_.raw || info.tensors == 0) {
      pieces_.push_back({"", 0, 0, std::min<std::uint64_t>(info.bytes, file_.bytes)});
      return true;
    }
    for (std::uint64_t i = 0; i < info.tensors; ++i) {
      auto t = VP_INIT(vp_tensor);
      if (vp_tensor_at(segment_, i, &t) != VP_OK) return complain("listing tensors");
      if (t.bytes == 0) continue;
      pieces_.push_back({t.name, t.offset, file_offset_of(t, info.layout), t.bytes});
      if (pieces_.back().file_offset + t.bytes > file_.bytes) usage("a tensor lies beyond the file's end");
    }
    return true;
  }

  std::uint64_t file_offset_of(const vp_tensor& t, vp_layout layout) {
    std::uint64_t offset = t.offset;
    const auto given = o_.file_offsets.find(t.name);
    if (given != o_.file_offsets.end()) return given->second;
    if (safetensors_offset(file_, t.name, offset) || layout == VP_LAYOUT_FILE) return offset;
    usage("where is a tensor in the file? give --offset-of NAME=FILE_OFFSET");
  }

  void check_round(std::uint32_t flags, unsigned thread) {
    std::vector<const char*> names;
    for (const Piece& p : pieces_) names.push_back(p.name.c_str());
    auto o = VP_INIT(vp_map_options);
    o.flags = flags;
    o.on_loss = o_.on_loss;
    const bool whole = pieces_.front().name.empty();
    if (!whole) {
      o.tensors = names.data();
      o.tensor_count = names.size();
    }
    std::vector<vp_range> ranges(pieces_.size());
    vp_view view{};
    if (vp_map(segment_, &o, &view, ranges.data()) != VP_OK) return note_failed_map();
    ++c_.maps;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const std::size_t at = (i + thread * 7) % pieces_.size();  // threads walk in different orders
      check(pieces_[at], static_cast<const unsigned char*>(ranges[at].data));
    }
    note_status(view);
    if (vp_unmap(view) != VP_OK) complain("unmapping");
  }

  // While daemons are killed a map may fail; the next round tries again.
  void note_failed_map() {
    if (o_.loop_seconds > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    complain("mapping");
  }

  void note_status(vp_view view) {
    auto info = VP_INIT(vp_view_info);
    if (vp_map_status(view, &info) != VP_OK) return void(complain("asking for the view's status"));
    c_.pages_lost += info.pages_lost;
    if (info.status != VP_OK) c_.sticky = info.status;
  }

  void check(const Piece& p, const unsigned char* mapped) {
    const unsigned char* wanted = file_.data + p.file_offset;
    const std::uint64_t step = o_.stride ? 3 * VP_PAGE_BYTES : VP_PAGE_BYTES;
    const std::uint64_t length = o_.stride ? 64 : VP_PAGE_BYTES;
    for (std::uint64_t at = 0; at < p.bytes; at += step)
      compare(mapped + at, wanted + at, std::min(length, p.bytes - at));
  }

  void compare(const unsigned char* mapped, const unsigned char* wanted, std::uint64_t n) {
    c_.bytes += n;
    if (std::memcmp(mapped, wanted, n) == 0) return;
    for (std::uint64_t i = 0; i < n; ++i) {
      if (mapped[i] == wanted[i]) continue;
      if (mapped[i] == 0xff)
        ++c_.poisoned;
      else
        ++c_.wrong;
    }
  }

  int child() {
    char byte;
    if (vp_read(segment_, 0, &byte, 1) != VP_STALE) return 1;
    if (vp_after_fork(session_) != VP_OK) return 2;
    vp_segment again{};
    if (vp_open(session_, o_.name.c_str(), &again) != VP_OK) return 3;
    const Piece& p = pieces_.front();
    if (vp_read(again, p.segment_offset, &byte, 1) != VP_OK) return 4;
    return static_cast<unsigned char>(byte) == file_.data[p.file_offset] ? 0 : 5;
  }

  const Options& o_;
  Counts& c_;
  const File file_;
  vp_session session_{};
  vp_segment segment_{};
  std::vector<Piece> pieces_;
};

// Poison (0xFF where the file says otherwise) is right only with a sticky error, and only where a loss is expected.
bool as_expected(const Options& o, const Counts& c) {
  if (c.wrong > 0 || c.bytes == 0) return false;
  if (o.expect_loss) return c.sticky != VP_OK && c.pages_lost > 0;
  return c.poisoned == 0 && c.sticky == VP_OK && (c.errors == 0 || o.loop_seconds > 0) && (!o.fork || c.fork == "ok");
}

void print(const Counts& c, std::uint64_t reconnects, bool ok) {
  const auto n = [](const std::atomic<std::uint64_t>& v) { return static_cast<unsigned long long>(v.load()); };
  std::printf(
      "{\"ok\":%s,\"bytes_checked\":%llu,\"wrong_bytes\":%llu,\"poisoned_bytes\":%llu,\"rounds\":%llu,\"maps\":%llu,"
      "\"errors\":%llu,"
      "\"callbacks\":%llu,\"pages_lost\":%llu,\"reconnects\":%llu,\"sticky\":\"%s\",\"fork\":\"%s\"}\n",
      ok ? "true" : "false", n(c.bytes), n(c.wrong), n(c.poisoned), n(c.rounds), n(c.maps), n(c.errors), n(c.callbacks),
      n(c.pages_lost), static_cast<unsigned long long>(reconnects),
      vp_strstatus(static_cast<vp_status>(c.sticky.load())), c.fork.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse(argc, argv);
  Counts c;
  Checker checker(o, c);
  if (!checker.connect()) {
    print(c, 0, false);
    return 1;
  }
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < o.threads; ++t) threads.emplace_back([&, t] { checker.run(t); });
  if (o.fork) checker.check_fork();
  for (auto& t : threads) t.join();
  const std::uint64_t reconnects = checker.reconnects();
  checker.disconnect();
  const bool ok = as_expected(o, c);
  print(c, reconnects, ok);
  return ok ? 0 : 1;
}
