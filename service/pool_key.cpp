// Key file and invitation tokens.
#include "service/pool_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <vector>

#include "base/crc32c.h"
#include "base/unique_fd.h"
#include "platform/machine.h"
#include "service/files.h"

namespace vrampool::service {
namespace {

constexpr std::string_view kMark = "vrampool-secret-1";

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

std::string check_of(std::string_view text) {
  return fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text.data(), text.size()))));
}

std::string key_text(const PoolKey& k) {
  const std::string body = fmt::format("{}:{}:{}:{}", kMark, to_text(k.pool), to_text(k.id), hex(k.bytes));
  return body + ":" + check_of(body);
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto cut = text.find(at);
    parts.push_back(text.substr(0, cut));
    if (cut == std::string_view::npos) return parts;
    text.remove_prefix(cut + 1);
  }
}

std::optional<PoolKey> parse_key(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 5 || parts[0] != kMark || parts[3].size() != 64) return {};
  if (check_of(text.substr(0, text.size() - parts[4].size() - 1)) != parts[4]) return {};
  const auto pool = parse_hex128(parts[1]);
  const auto id = parse_hex128(parts[2]);
  const auto high = parse_hex128(parts[3].substr(0, 32));
  const auto low = parse_hex128(parts[3].substr(32));
  if (!pool || !id || !high || !low) return {};
  PoolKey k{PoolId{(*pool)[0], (*pool)[1]}, KeyId{(*id)[0], (*id)[1]}, {}};
  const std::uint64_t words[] = {(*high)[0], (*high)[1], (*low)[0], (*low)[1]};
  for (std::size_t i = 0; i < k.bytes.size(); ++i)
    k.bytes[i] = static_cast<std::byte>(words[i / 8] >> (56 - 8 * (i % 8)));
  return k;
}

std::string key_path(const std::string& state_dir) { return state_dir + "/pool.key"; }

}  // namespace

PoolKey PoolKey::make() {
  PoolKey k;
  const auto pool = platform::random_id(), id = platform::random_id();
  k.pool = PoolId{pool.hi, pool.lo};
  k.id = KeyId{id.hi, id.lo};
  platform::random_bytes(k.bytes.data(), k.bytes.size());
  return k;
}

Result<std::optional<PoolKey>> read_pool_key(const std::string& state_dir) {
  const std::string path = key_path(state_dir);
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return std::optional<PoolKey>();
    return error_errno(errno, path);
  }
  if (info.st_mode & 077) return error(VP_DENIED, "{}: others may read the pool key: chmod 600 it", path);
  VP_TRY(text, read_file(path, 4096));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  auto key = parse_key(text);
  if (!key) return error(VP_CORRUPT, "{}: is no pool key: restore it, or remove it and join again", path);
  return key;
}

Status write_pool_key(const std::string& state_dir, const PoolKey& key) {
  return write_file(key_path(state_dir), key_text(key) + "\n", 0600);
}

Status remove_pool_key(const std::string& state_dir) {
  if (::unlink(key_path(state_dir).c_str()) == 0 || errno == ENOENT) return {};
  return error_errno(errno, key_path(state_dir));
}

std::string to_token(const Invitation& i) { return key_text(i.key) + "@" + i.address; }

Result<Invitation> parse_token(std::string_view token) {
  const auto at = token.find('@');
  const auto key = parse_key(token.substr(0, at));
  if (at == std::string_view::npos || !key)
    return error(VP_INVALID,
                 "that is no invitation (or it was cut while copying): ask for a new one with `vrampool invite`");
  const std::string_view address = token.substr(at + 1);
  if (address.rfind(':') == std::string_view::npos || address.size() > 300)
    return error(VP_INVALID, "the invitation names no address: ask for a new one with `vrampool invite`");
  return Invitation{std::string(address), *key};
}

}  // namespace vrampool::service
