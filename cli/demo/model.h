// A model for the demo: a safetensors file with tensors of many sizes, made of a fixed seed.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace vrampool::cli {

// Writes about `bytes` to `path`. Blocking: a second for 300 MB.
Status write_demo_model(const std::string& path, std::uint64_t bytes);

}  // namespace vrampool::cli
