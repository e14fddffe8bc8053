// The SDK for verbs that move bytes: its exceptions become the Results of this program.
#pragma once

#include "cli/command.h"
#include "vrampool/vrampool.hpp"

namespace vrampool::cli {

// Runs `body(session)` and turns vp::Error into an Error.
template <class Body>
auto with_session(const Invocation& in, Body body) -> decltype(body(std::declval<vp::Session&>())) {
  try {
    vp::Session session = vp::Session::connect(in.socket, "vrampool");
    return body(session);
  } catch (const vp::Error& failure) {
    return Error{failure.code(), failure.what()};
  }
}

}  // namespace vrampool::cli
