// The TOML side of the configuration: every key is read once, and a key that nobody read is refused by name.
#include "service/config.h"

#include <fstream>
#include <set>
#include <sstream>

#include "base/text.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace vrampool::service {
namespace {

// One section of the file. The first mistake is kept; reading goes on so that the code stays flat.
class Section {
 public:
  Section(const toml::table& root, std::string file, std::string name, std::set<std::string>& known, Status& failure)
      : file_(std::move(file)), name_(std::move(name)), failure_(failure) {
    known.insert(name_);
    const toml::node* node = root.get(name_);
    if (!node) return;
    table_ = node->as_table();
    if (!table_) fail(*node, "must be a table: [{}]", name_);
  }
  ~Section() { refuse_unknown(); }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  void text(const char* key, std::string& out) {
    if (const toml::node* n = take(key)) {
      if (auto v = n->value_exact<std::string>())
        out = *v;
      else
        fail(*n, "{}.{} must be a string", name_, key);
    }
  }
  void flag(const char* key, bool& out) {
    if (const toml::node* n = take(key)) {
      if (auto v = n->value_exact<bool>())
        out = *v;
      else
        fail(*n, "{}.{} must be true or false", name_, key);
    }
  }
  template <class Int>
  void number(const char* key, Int& out, std::int64_t min, std::int64_t max) {
    const toml::node* n = take(key);
    if (!n) return;
    const auto v = n->value_exact<std::int64_t>();
    if (v && *v >= min && *v <= max)
      out = static_cast<Int>(*v);
    else
      fail(*n, "{}.{} must be a whole number from {} to {}", name_, key, min, max);
  }
  void bytes(const char* key, std::uint64_t& out) {
    const toml::node* n = take(key);
    if (!n) return;
    if (auto whole = n->value_exact<std::int64_t>(); whole && *whole >= 0) {
      out = static_cast<std::uint64_t>(*whole);
      return;
    }
    const auto text = n->value_exact<std::string>();
    const auto parsed = text ? parse_bytes(*text) : Result<std::uint64_t>(error(VP_INVALID, "no size"));
    if (parsed)
      out = *parsed;
    else
      fail(*n, "{}.{} must be a size such as \"64GiB\"", name_, key);
  }
  void one_of(const char* key, std::string& out, std::initializer_list<const char*> choices) {
    const toml::node* n = take(key);
    if (!n) return;
    std::string all;
    const auto v = n->value_exact<std::string>();
    for (const char* choice : choices) {
      if (v && *v == choice) {
        out = *v;
        return;
      }
      all += (all.empty() ? "" : ", ") + std::string(choice);
    }
    fail(*n, "{}.{} must be one of: {}", name_, key, all);
  }
  // Free keys, string values.
  void strings(std::map<std::string, std::string>& out) {
    if (!table_) return;
    for (const auto& [key, node] : *table_) {
      seen_.insert(std::string(key.str()));
      if (auto v = node.value_exact<std::string>())
        out[std::string(key.str())] = *v;
      else
        fail(node, "{}.{} must be a string", name_, key.str());
    }
  }

 private:
  const toml::node* take(const char* key) {
    seen_.insert(key);
    return table_ ? table_->get(key) : nullptr;
  }
  template <class... Args>
  void fail(const toml::node& at, fmt::format_string<Args...> text, Args&&... args) {
    if (!failure_) return;
    failure_ =
        error(VP_INVALID, "{}:{}: {}", file_, at.source().begin.line, fmt::format(text, std::forward<Args>(args)...));
  }
  void refuse_unknown() {
    if (!table_) return;
    for (const auto& [key, node] : *table_)
      if (!seen_.contains(std::string(key.str()))) fail(node, "unknown key \"{}.{}\"", name_, key.str());
  }

  std::string file_, name_;
  Status& failure_;
  const toml::table* table_ = nullptr;
  std::set<std::string> seen_;
};

void read_node(Section s, Config& c) {
  s.text("name", c.node_name);
  s.text("listen", c.listen);
  s.text("advertise", c.advertise);
  s.number("control_port", c.control_port, 0, 65535);
  s.number("data_port", c.data_port, 0, 65535);
}

void read_memory(Section s, Config& c) {
  s.text("capacity", c.capacity_text);
  s.flag("overcommit", c.overcommit);
  s.bytes("cache", c.cache_bytes);
}

void read_data(Section s, Config& c) {
  std::string security = c.data_tls ? "tls" : "plain";
  s.one_of("security", security, {"tls", "plain"});
  c.data_tls = security == "tls";
  s.number("movers", c.movers, 1, 64);
  s.one_of("fault_source", c.fault_source, {"auto", "userfaultfd", "posix"});
}

void read_rest(const toml::table& root, Config& c, std::set<std::string>& known, Status& failure) {
  const auto open = [&](const char* name) { return Section(root, c.source, name, known, failure); };
  {
    Section s = open("paths");
    s.text("state_dir", c.state_dir);
    s.text("run_dir", c.run_dir);
    s.text("socket", c.socket_path);
    s.text("memory_dir", c.memory_dir);
  }
  {
    Section s = open("timing");
    s.number("detection_ms", c.detection_ms, kHeartbeatEveryMs * 2, 600'000);
    s.number("fault_deadline_ms", c.fault_deadline_ms, 100, 3'600'000);
  }
  {
    Section s = open("log");
    s.one_of("level", c.log_level, {"debug", "info", "warn", "error"});
    s.text("file", c.log_file);
  }
  open("principals").strings(c.principals);
}

Status refuse_unknown_sections(const toml::table& root, const std::string& file, const std::set<std::string>& known) {
  for (const auto& [key, node] : root)
    if (!known.contains(std::string(key.str())))
      return error(VP_INVALID, "{}:{}: unknown key \"{}\"", file, node.source().begin.line, key.str());
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text, std::string name) {
  Config c;
  c.source = name;
  toml::parse_result parsed = toml::parse(text, name);
  if (!parsed)
    return error(VP_INVALID, "{}:{}: {}", name, parsed.error().source().begin.line, parsed.error().description());
  const toml::table& root = parsed.table();
  std::set<std::string> known;
  Status failure;
  read_node(Section(root, name, "node", known, failure), c);
  read_memory(Section(root, name, "memory", known, failure), c);
  read_data(Section(root, name, "data", known, failure), c);
  read_rest(root, c, known, failure);
  VP_CHECK(std::move(failure));
  VP_CHECK(refuse_unknown_sections(root, name, known));
  return c;
}

Result<Config> read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(VP_NOT_FOUND, "{}: cannot be read: {}", path, std::strerror(errno));
  std::ostringstream text;
  text << file.rdbuf();
  return parse_config(text.str(), path);
}

}  // namespace vrampool::service
