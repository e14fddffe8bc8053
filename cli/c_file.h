// A C stream that closes itself.
#pragma once

#include <cstdio>
#include <memory>

namespace vrampool::cli {

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using CFile = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace vrampool::cli
