// Requests with side effects are executed once, however often and by whichever way they arrive: the answer is kept
// per (member, life) until the asker says that it has it. Asked of another life of this node: "unknown", never
// executed.
//
// Threads: one at a time. Errors: values. Bounds: `window` unfinished requests per asker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace vrampool::membership {

struct OnceRequest {
  Sender asker{};
  RequestNo no{};
  RequestNo done_up_to{};  // the asker has the answers of all requests up to here
  Life addressed_to{};     // the life of this node that the asker first sent it to
};

enum class OnceVerdict : std::uint8_t {
  execute,      // new: execute, then finish()
  in_progress,  // being executed: say nothing, the answer will be sent
  answered,     // executed before: send `answer` again
  unknown,      // was sent to an earlier life of this node: answer VP_UNKNOWN_OUTCOME
  refused,      // outside the window, or of an older life of the asker: drop
};

class ReplyCache {
 public:
  ReplyCache(Life own, std::size_t window);
  OnceVerdict begin(const OnceRequest&);
  void finish(Sender asker, RequestNo no, std::vector<std::byte> answer);
  const std::vector<std::byte>* answer(Sender asker, RequestNo no) const;
  // The member has this life now: what earlier lives asked is forgotten and refused.
  void on_life(Sender current);
  std::size_t kept() const;

 private:
  struct Asker {
    Life life{};
    RequestNo done_up_to{};
    std::map<RequestNo, std::optional<std::vector<std::byte>>> requests;
  };
  Life own_;
  std::size_t window_;
  std::map<MemberNo, Asker> askers_;
};

}  // namespace vrampool::membership
