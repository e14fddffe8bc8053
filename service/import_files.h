// Which files an import means, and what tensors they hold.
#pragma once

#include <vector>

#include "formats/model.h"
#include "service/file_rights.h"

namespace vrampool::service {

struct ModelFiles {
  std::vector<InputFile> files;
  std::vector<formats::ParsedFile> parsed;  // same order
};

// A file; several files; a directory; a safetensors index; the first part of a split GGUF.
// Errors: those of the formats, naming file and tensor.
Result<ModelFiles> open_model(const std::vector<std::string>& paths, const FileRights& rights);

}  // namespace vrampool::service
