// The pool's secret: its file, and the token by which a person carries it to the next machine.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/result.h"

namespace vrampool::service {

struct PoolKey {
  PoolId pool{};
  KeyId id{};
  std::array<std::byte, 32> bytes{};

  static PoolKey make();
};

// "<state_dir>/pool.key", mode 0600. Nothing there: no value. Errors: unreadable, damaged, readable by others.
Result<std::optional<PoolKey>> read_pool_key(const std::string& state_dir);
Status write_pool_key(const std::string& state_dir, const PoolKey&);
Status remove_pool_key(const std::string& state_dir);

struct Invitation {
  std::string address;  // host:port of a member's control listener
  PoolKey key;
};
// One line: "vrampool-secret-1:<pool>:<key id>:<key>:<check>@<host:port>".
std::string to_token(const Invitation&);
Result<Invitation> parse_token(std::string_view token);

}  // namespace vrampool::service
