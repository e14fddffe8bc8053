// Exactly once, or "unknown".
#include "membership/reply_cache.h"

#include "base/assert.h"
#include "base/mark.h"

namespace vrampool::membership {

ReplyCache::ReplyCache(Life own, std::size_t window) : own_(own), window_(window) { VP_ASSERT(window > 0); }

OnceVerdict ReplyCache::begin(const OnceRequest& request) {
  Asker& asker = askers_[request.asker.member];
  if (request.asker.life < asker.life) return OnceVerdict::refused;
  if (request.asker.life > asker.life) asker = Asker{request.asker.life, {}, {}};
  if (request.addressed_to != own_ && !VP_BUG(41)) {
    VP_MARK(once_unknown_after_restart);
    return OnceVerdict::unknown;
  }
  if (request.done_up_to > asker.done_up_to) {
    asker.done_up_to = request.done_up_to;
    asker.requests.erase(asker.requests.begin(), asker.requests.upper_bound(request.done_up_to));
  }
  if (request.no <= asker.done_up_to) return OnceVerdict::refused;
  const auto at = asker.requests.find(request.no);
  if (at != asker.requests.end() && !VP_BUG(40)) {
    VP_MARK(once_repeated);
    return at->second ? OnceVerdict::answered : OnceVerdict::in_progress;
  }
  if (asker.requests.size() >= window_) return OnceVerdict::refused;
  asker.requests[request.no] = std::nullopt;
  return OnceVerdict::execute;
}

void ReplyCache::finish(Sender asker, RequestNo no, std::vector<std::byte> answer) {
  const auto at = askers_.find(asker.member);
  if (at == askers_.end() || at->second.life != asker.life) return;
  const auto entry = at->second.requests.find(no);
  if (entry != at->second.requests.end()) entry->second = std::move(answer);
}

const std::vector<std::byte>* ReplyCache::answer(Sender asker, RequestNo no) const {
  const auto at = askers_.find(asker.member);
  if (at == askers_.end() || at->second.life != asker.life) return nullptr;
  const auto entry = at->second.requests.find(no);
  return entry == at->second.requests.end() || !entry->second ? nullptr : &*entry->second;
}

void ReplyCache::on_life(Sender current) {
  Asker& asker = askers_[current.member];
  if (current.life > asker.life) asker = Asker{current.life, {}, {}};
}

std::size_t ReplyCache::kept() const {
  std::size_t count = 0;
  for (const auto& [member, asker] : askers_) count += asker.requests.size();
  return count;
}

}  // namespace vrampool::membership
