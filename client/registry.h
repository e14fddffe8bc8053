// What the handles of the C interface name, and the checks that every call makes before it does anything.
//
// Threads: any. The tables live as long as the process: threads of the library may run while it exits.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "client/failure.h"
#include "client/handles.h"
#include "client/session.h"

namespace vrampool::client {

// An asynchronous operation whose caller will ask for its end.
struct Operation {
  std::shared_ptr<Session> owner;
  Channel* channel = nullptr;
  std::shared_ptr<Transfer> transfer;
  Session& session() const { return *owner; }
};

struct Registry {
  HandleTable<Session> sessions{HandleKind::session, kSessionsPerProcessMax};
  HandleTable<Segment> segments{HandleKind::segment, kSegmentHandlesMax};
  HandleTable<View> views{HandleKind::view, kViewHandlesMax};
  HandleTable<Operation> operations{HandleKind::token, kTokenHandlesMax};
};
Registry& registry();

inline Session& session_of(Session& s) { return s; }
template <class T>
Session& session_of(T& object) {
  return object.session();
}

// The object of a handle, if its session may be used by this process.
template <class T>
Result<std::shared_ptr<T>> find(const HandleTable<T>& table, std::uint64_t id) {
  VP_TRY(object, table.find(id));
  VP_CHECK(session_of(*object).usable());
  return object;
}

// The same for a call that blocks.
template <class T>
Result<std::shared_ptr<T>> find_to_block(const HandleTable<T>& table, std::uint64_t id) {
  VP_TRY(object, find(table, id));
  if (in_completion()) return error(VP_BUSY, "a callback must not wait for the daemon");
  return object;
}

inline Status need(bool given, const char* what) {
  return given ? Status{} : Status(error(VP_INVALID, "{} is missing", what));
}

// Structs that may grow: what the caller knows is taken, the rest is 0.
template <class T>
Result<T> input(const T* given, const char* what) {
  T out{};
  out.struct_size = sizeof(T);
  if (given == nullptr) return out;
  if (given->struct_size < sizeof(std::uint32_t)) return error(VP_INVALID, "{}: set struct_size (VP_INIT does)", what);
  std::memcpy(&out, given, std::min<std::size_t>(given->struct_size, sizeof(T)));
  return out;
}

template <class T>
Status check_output(const T* to, const char* what) {
  VP_CHECK(need(to != nullptr, what));
  if (to->struct_size < sizeof(std::uint32_t)) return error(VP_INVALID, "{}: set struct_size (VP_INIT does)", what);
  return {};
}

template <class T>
Status output(T* to, T value, const char* what) {
  VP_CHECK(check_output(to, what));
  value.struct_size = to->struct_size;
  std::memcpy(to, &value, std::min<std::size_t>(to->struct_size, sizeof(T)));
  return {};
}

// Copies a name into a fixed field, cut to its room.
template <std::size_t N>
void put(char (&to)[N], const std::string& text) {
  std::strncpy(to, text.c_str(), N - 1);
  to[N - 1] = '\0';
}

// An answer about a segment by its id: "no such" means that it was removed, and is remembered.
Status by_id(Segment& segment, Status answer);

}  // namespace vrampool::client
