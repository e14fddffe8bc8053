// What the FlatBuffers verifier leaves open: parts that are referenced many times, vectors that lie askew,
// and unions without a value.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>

namespace vrampool::wire {

// `buffer` was verified as type `type`. False if it would unpack into more than it is long (a string of 1 MB that a
// million tensors share would take a terabyte; our builders share nothing), if a vector of numbers is not aligned to
// their size, or if a union names a type and has no value. Follows the unpacked tree and stops as soon as it is too
// large.
bool is_plain_tree(const std::uint8_t* buffer, std::size_t bytes, const flatbuffers::TypeTable* type);

}  // namespace vrampool::wire
