// Two small simulations beside the pool: writes into a piece that is frozen meanwhile, and requests that must be
// executed once. Each runs one seed and says what broke ("" if nothing).
#pragma once

#include <cstdint>
#include <string>

namespace vrampool::sim {

std::string run_gate_seed(std::uint64_t seed);
std::string run_once_seed(std::uint64_t seed);

}  // namespace vrampool::sim
