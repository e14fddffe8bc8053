#include "base/text.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/ids.h"
#include "base/limits.h"

namespace vrampool {

std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double v = static_cast<double>(bytes);
  std::size_t u = 0;
  while (v >= 1024 && u + 1 < kUnits.size()) v /= 1024, ++u;
  if (u == 0 || std::abs(v - std::round(v)) < 0.05) return fmt::format("{:.0f} {}", v, kUnits[u]);
  return fmt::format("{:.1f} {}", v, kUnits[u]);
}

std::string format_rate(double v) {
  static constexpr std::array<const char*, 5> kUnits{"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t u = 0;
  while (v >= 1000 && u + 1 < kUnits.size()) v /= 1000, ++u;
  return fmt::format("{:.{}f} {}", v, v < 10 && u > 0 ? 2 : 0, kUnits[u]);
}

std::string format_duration_ns(std::int64_t ns) {
  const double v = static_cast<double>(ns);
  if (v < 1e3) return fmt::format("{} ns", ns);
  if (v < 1e6) return fmt::format("{:.1f} us", v / 1e3);
  if (v < 1e9) return fmt::format("{:.1f} ms", v / 1e6);
  if (v < 120e9) return fmt::format("{:.1f} s", v / 1e9);
  const auto s = ns / 1'000'000'000;
  if (s < 7200) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(copy.c_str(), &end);
  std::string unit;
  for (const char* p = end; *p != 0; ++p)
    if (!std::isspace(static_cast<unsigned char>(*p)))
      unit.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(*p))));
  static constexpr std::string_view kLetters = "KMGTP";
  double factor = 1;
  bool good = end != copy.c_str() && errno == 0 && number >= 0 && std::isfinite(number) &&
              std::isdigit(static_cast<unsigned char>(copy[0]));
  if (!unit.empty() && unit != "B") {
    const auto at = kLetters.find(unit[0]);
    const std::string rest = unit.substr(1);
    good = good && at != std::string_view::npos && (rest == "IB" || rest == "B" || rest.empty());
    factor = std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(at + 1));
  }
  if (!good || number * factor >= 9.2e18)
    return error(VP_INVALID, "\"{}\" is not a size; write for example 64GiB, 1.5TB or 4096", text);
  return static_cast<std::uint64_t>(number * factor);
}

Status check_name(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax)
    return error(VP_INVALID, "a name has 1 to {} characters, this one has {}", kNameBytesMax, name.size());
  for (const char c : name)
    if (c <= ' ' || c > '~' || c == '\\')
      return error(VP_INVALID, "a name holds printable ASCII without blanks and backslashes; this one does not");
  std::size_t start = 0;
  while (start <= name.size()) {
    const auto slash = std::min(name.find('/', start), name.size());
    const auto part = name.substr(start, slash - start);
    if (part.empty() || part == "." || part == "..")
      return error(VP_INVALID, "name \"{}\": no empty part, \".\" or \"..\" between slashes", name);
    start = slash + 1;
  }
  return {};
}

Error error_errno(int errno_value, std::string what) {
  vp_status code = VP_FAILED;
  if (errno_value == ENOSPC || errno_value == ENOMEM || errno_value == EDQUOT) code = VP_NO_SPACE;
  if (errno_value == EACCES || errno_value == EPERM) code = VP_DENIED;
  if (errno_value == ENOENT) code = VP_NOT_FOUND;
  if (errno_value == EEXIST) code = VP_EXISTS;
  if (errno_value == ETIMEDOUT) code = VP_TIMEOUT;
  return Error{code, what + ": " + std::strerror(errno_value)};
}

std::string to_hex(std::uint64_t hi, std::uint64_t lo) { return fmt::format("{:016x}{:016x}", hi, lo); }
std::string to_text(const SegmentId& s) { return fmt::format("{}.{}.{}", s.member.value, s.life.value, s.count); }
std::string to_text(const PieceId& p) { return fmt::format("{}/{}", to_text(p.segment), p.ordinal); }
std::string to_text(const Epoch& e) { return fmt::format("{}@{}.{}", e.term.count, e.term.member.value, e.n); }

std::optional<std::array<std::uint64_t, 2>> parse_hex128(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  std::array<std::uint64_t, 2> out{};
  for (int half = 0; half < 2; ++half) {
    const char* first = text.data() + half * 16;
    const auto [end, ec] = std::from_chars(first, first + 16, out[static_cast<std::size_t>(half)], 16);
    if (ec != std::errc{} || end != first + 16) return std::nullopt;
  }
  return out;
}

std::optional<SegmentId> parse_segment_id(std::string_view text) {
  SegmentId id;
  const char* p = text.data();
  const char* const end = p + text.size();
  auto r = std::from_chars(p, end, id.member.value);
  if (r.ec != std::errc{} || r.ptr == end || *r.ptr != '.') return std::nullopt;
  r = std::from_chars(r.ptr + 1, end, id.life.value);
  if (r.ec != std::errc{} || r.ptr == end || *r.ptr != '.') return std::nullopt;
  r = std::from_chars(r.ptr + 1, end, id.count);
  if (r.ec != std::errc{} || r.ptr != end) return std::nullopt;
  return id;
}

}  // namespace vrampool
