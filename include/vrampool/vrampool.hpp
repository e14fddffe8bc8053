// The C++ face of vrampool: owners for the handles of vrampool.h, and vp::Error instead of status codes.
//
// Threads, blocking, units: as in vrampool.h. Ownership: every class owns its handle, move only; a destructor closes
// and reports nothing. Errors: a failed call throws vp::Error; functions named try_ return the status instead. Only the
// standard library; everything is inline, so no C++ type crosses the library's boundary.
#ifndef VRAMPOOL_VRAMPOOL_HPP
#define VRAMPOOL_VRAMPOOL_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "vrampool/vrampool.h"

namespace vp {

// what() is one line for a person; code() is what a program acts on.
class Error : public std::runtime_error {
 public:
  Error(vp_status code, const std::string& text) : std::runtime_error(text), code_(code) {}
  vp_status code() const noexcept { return code_; }

 private:
  vp_status code_;
};

inline void check(vp_status status) {
  if (status != VP_OK) throw Error(status, vp_last_error());
}

namespace detail {
// A handle that closes itself through `Close`.
template <class Handle, vp_status (*Close)(Handle)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  Owner(Owner&& o) noexcept : handle_(std::exchange(o.handle_, Handle{})) {}
  Owner& operator=(Owner&& o) noexcept {
    if (this != &o) reset(std::exchange(o.handle_, Handle{}));
    return *this;
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() { reset(); }
  Handle get() const noexcept { return handle_; }
  Handle release() noexcept { return std::exchange(handle_, Handle{}); }
  explicit operator bool() const noexcept { return handle_.id != 0; }
  void reset(Handle next = Handle{}) noexcept {
    if (handle_.id != 0) static_cast<void>(Close(handle_));
    handle_ = next;
  }

 private:
  Handle handle_{};
};
}  // namespace detail

// Mapped memory of a sealed segment; unmapped with the object.
class View {
 public:
  View() = default;
  View(vp_view handle, std::vector<vp_range> ranges) : owner_(handle), ranges_(std::move(ranges)) {}

  std::size_t size() const noexcept { return ranges_.size(); }
  // Range `index` of those asked for. Aligned as the segment's layout says; T must fit that alignment.
  template <class T = std::byte>
  std::span<const T> as(std::size_t index = 0) const {
    const vp_range& r = ranges_.at(index);
    return {static_cast<const T*>(r.data), static_cast<std::size_t>(r.bytes / sizeof(T))};
  }
  vp_view_info status() const {
    auto info = VP_INIT(vp_view_info);
    vp::check(vp_map_status(owner_.get(), &info));
    return info;
  }
  // Throws the sticky error, if this view has one: call it after a computation whose result matters.
  void check() const {
    const vp_view_info info = status();
    if (info.status != VP_OK) throw Error(info.status, info.message);
  }
  void unmap() { vp::check(vp_unmap(owner_.release())); }
  vp_view get() const noexcept { return owner_.get(); }

 private:
  detail::Owner<vp_view, vp_unmap> owner_;
  std::vector<vp_range> ranges_;
};

struct MapOptions {
  bool lazy = false;
  vp_on_loss on_loss = VP_ON_LOSS_POISON;
  std::int32_t deadline_ms = 0;
};

// An asynchronous operation; the destructor waits for it, because the library still owns the buffer.
class Token {
 public:
  Token() = default;
  explicit Token(vp_token handle) : handle_(handle) {}
  Token(Token&& o) noexcept : handle_(std::exchange(o.handle_, vp_token{})) {}
  Token& operator=(Token&& o) noexcept {
    if (this != &o) {
      finish();
      handle_ = std::exchange(o.handle_, vp_token{});
    }
    return *this;
  }
  ~Token() { finish(); }
  bool try_wait(std::int32_t timeout_ms) {
    const vp_status s = vp_wait(handle_, timeout_ms);
    if (s == VP_TIMEOUT && timeout_ms >= 0) return false;
    handle_ = {};
    check(s);
    return true;
  }
  void wait() { static_cast<void>(try_wait(-1)); }

 private:
  void finish() noexcept {
    if (handle_.id != 0) static_cast<void>(vp_wait(std::exchange(handle_, vp_token{}), -1));
  }
  vp_token handle_{};
};

class Segment {
 public:
  Segment() = default;
  explicit Segment(vp_segment handle) : owner_(handle) {}

  vp_segment_info info() const {
    auto info = VP_INIT(vp_segment_info);
    check(vp_segment_status(get(), &info));
    return info;
  }
  std::vector<vp_tensor> tensors() const {
    std::vector<vp_tensor> all(static_cast<std::size_t>(info().tensors), VP_INIT(vp_tensor));
    for (std::size_t i = 0; i < all.size(); ++i) check(vp_tensor_at(get(), i, &all[i]));
    return all;
  }
  vp_tensor tensor(const std::string& name) const {
    auto t = VP_INIT(vp_tensor);
    check(vp_tensor_find(get(), name.c_str(), &t));
    return t;
  }

  View map(const MapOptions& options = {}) const { return map_range(0, 0, options); }
  View map_range(std::uint64_t offset, std::uint64_t bytes, const MapOptions& options = {}) const {
    vp_map_options o = plain(options);
    o.offset = offset;
    o.bytes = bytes;
    return map_with(o, 1);
  }
  View map_tensor(const std::string& name, const MapOptions& options = {}) const {
    return map_tensors({name}, options);
  }
  // as(i) of the view is names[i].
  View map_tensors(const std::vector<std::string>& names, const MapOptions& options = {}) const {
    std::vector<const char*> raw;
    for (const std::string& n : names) raw.push_back(n.c_str());
    vp_map_options o = plain(options);
    o.tensors = raw.data();
    o.tensor_count = raw.size();
    return map_with(o, raw.size());
  }

  void read(std::uint64_t offset, std::span<std::byte> into) const { check(try_read(offset, into)); }
  vp_status try_read(std::uint64_t offset, std::span<std::byte> into) const noexcept {
    return vp_read(get(), offset, into.data(), into.size());
  }
  Token read_async(std::uint64_t offset, std::span<std::byte> into) const {
    vp_token token{};
    check(vp_read_async(get(), offset, into.data(), into.size(), nullptr, nullptr, &token));
    return Token(token);
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    check(vp_write(get(), offset, bytes.data(), bytes.size()));
  }
  void seal() { check(vp_seal(get())); }
  void abort() { check(vp_abort(owner_.release())); }

  void prefetch(std::uint64_t offset, std::uint64_t bytes, bool wait) const {
    check(vp_prefetch(get(), offset, bytes, wait ? 1 : 0));
  }
  void pin(std::uint64_t offset, std::uint64_t bytes) const { check(vp_pin(get(), offset, bytes)); }
  void unpin(std::uint64_t offset, std::uint64_t bytes) const { check(vp_unpin(get(), offset, bytes)); }
  vp_range_info range_status(std::uint64_t offset, std::uint64_t bytes) const {
    auto info = VP_INIT(vp_range_info);
    check(vp_range_status(get(), offset, bytes, &info));
    return info;
  }
  vp_segment get() const noexcept { return owner_.get(); }

 private:
  static vp_map_options plain(const MapOptions& options) {
    auto o = VP_INIT(vp_map_options);
    o.flags = options.lazy ? VP_MAP_LAZY : VP_MAP_RESIDENT;
    o.on_loss = options.on_loss;
    o.deadline_ms = options.deadline_ms;
    return o;
  }
  View map_with(const vp_map_options& o, std::size_t count) const {
    vp_view view{};
    std::vector<vp_range> ranges(count == 0 ? 1 : count);
    check(vp_map(get(), &o, &view, ranges.data()));
    return View(view, std::move(ranges));
  }
  detail::Owner<vp_segment, vp_close> owner_;
};

class Session {
 public:
  // An empty path: the usual places.
  static Session connect(const std::string& socket_path = {}, const std::string& program = {}) {
    auto o = VP_INIT(vp_connect_options);
    o.socket_path = socket_path.empty() ? nullptr : socket_path.c_str();
    o.program = program.empty() ? nullptr : program.c_str();
    return connect(o);
  }
  static Session connect(const vp_connect_options& options) {
    vp_session handle{};
    check(vp_connect(&options, &handle));
    return Session(handle);
  }

  Segment open(const std::string& name) const {
    vp_segment handle{};
    check(vp_open(get(), name.c_str(), &handle));
    return Segment(handle);
  }
  Segment create(const std::string& name, const vp_create_options& options) const {
    vp_segment handle{};
    check(vp_create(get(), name.c_str(), &options, &handle));
    return Segment(handle);
  }
  Segment create(const std::string& name, std::uint64_t bytes) const {
    auto o = VP_INIT(vp_create_options);
    o.bytes = bytes;
    return create(name, o);
  }
  void remove(const std::string& name, bool force = false) const {
    check(vp_remove(get(), name.c_str(), force ? 1 : 0));
  }
  void rename(const std::string& from, const std::string& to) const {
    check(vp_rename(get(), from.c_str(), to.c_str()));
  }
  void on_error(vp_error_callback callback, void* user) const { check(vp_set_error_callback(get(), callback, user)); }
  vp_session_info info() const {
    auto info = VP_INIT(vp_session_info);
    check(vp_session_status(get(), &info));
    return info;
  }
  void after_fork() const { check(vp_after_fork(get())); }
  vp_session get() const noexcept { return owner_.get(); }

 private:
  explicit Session(vp_session handle) : owner_(handle) {}
  detail::Owner<vp_session, vp_disconnect> owner_;
};

}  // namespace vp
#endif
