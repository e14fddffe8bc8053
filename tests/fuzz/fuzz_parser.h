// The body of a target for a Parser: any table that it accepts must hold what tensor_table.h promises.
#pragma once

#include <set>

#include "check.h"
#include "formats/model.h"

namespace vrampool::fuzz {

inline void check_table(const formats::TensorTable& table) {
  std::uint64_t end = table.data_offset;
  std::set<std::string> names;
  for (const auto& t : table.tensors) {
    must(t.file_offset >= end && t.file_offset <= table.file_bytes && t.bytes <= table.file_bytes - t.file_offset);
    must(formats::check_tensor_name(t.name, "file").ok() && names.insert(t.name).second);
    end = t.file_offset + t.bytes;
  }
}

// Both layouts cover every byte of the file once.
inline void check_plans(const formats::TensorTable& table) {
  for (const auto layout : {wire::LayoutMode::aligned, wire::LayoutMode::file}) {
    const auto plan = formats::plan_segment({{"file", table}}, layout);
    must(plan.ok() && plan->bytes % kPageBytes == 0 && plan->tensors.size() == table.tensors.size());
    std::uint64_t covered = 0;
    for (const auto& r : plan->ranges) {
      must(r.file_offset == covered && r.segment_offset + r.bytes <= plan->bytes);
      covered += r.bytes;
    }
    must(covered == table.file_bytes);
  }
}

// The first byte says how many bytes the parser is given at a time.
inline void run_parser(formats::Parser parse, const std::uint8_t* data, std::size_t size) {
  const std::uint64_t step = size == 0 ? 1 : 1 + data[0];
  const auto file = size == 0 ? bytes_of(data, 0) : bytes_of(data + 1, size - 1);
  for (std::uint64_t have = 0;;) {
    const auto got = parse(file.first(have), file.size(), "file");
    if (!got.ok()) return check_message(got.error());
    if (const auto* table = std::get_if<formats::TensorTable>(&*got)) {
      check_table(*table);
      return check_plans(*table);
    }
    const auto want = std::get<formats::NeedBytes>(*got).prefix_bytes;
    must(want > have && want <= file.size());
    have = std::min<std::uint64_t>(file.size(), std::max(want, have + step));
  }
}

}  // namespace vrampool::fuzz
