// Walks a JSON document as events, without building it in memory: headers may have 100 MB, come from strangers and
// must not hide a duplicate key. Only this file knows which JSON library is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace vrampool::formats {

// Receives the events. A handler that dislikes what it sees sets `failure`; the walk then ends.
// Nothing throws out of a handler.
class JsonSink {
 public:
  virtual ~JsonSink() = default;
  virtual void object_begin() = 0;
  virtual void object_end() = 0;
  virtual void array_begin() = 0;
  virtual void array_end() = 0;
  virtual void key(std::string_view text) = 0;
  virtual void string(std::string_view text) = 0;
  virtual void whole_number(std::uint64_t value) = 0;
  // `kind`: "a negative number", "a fraction", "true or false", "null".
  virtual void other(std::string_view kind) = 0;

  std::optional<Error> failure;
};

// Errors: the sink's failure; VP_CORRUPT "<what>: not valid JSON ..." with the byte at which it breaks.
Status walk_json(std::span<const std::byte> text, std::size_t depth_max, std::string_view what, JsonSink& sink);

}  // namespace vrampool::formats
