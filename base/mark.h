// Coverage marks and planted bugs: how the simulator proves that it reaches the rare states and that
// it would notice a mistake there. Both compile to nothing unless VP_SIMULATION is defined.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace vrampool::sim_hooks {

// Counts how often a named point was reached. Threads: the simulator's only.
void hit(const char* mark);
std::map<std::string, std::uint64_t>& marks();
// The number of the planted bug that is switched on; 0 is none.
int& planted_bug();

}  // namespace vrampool::sim_hooks

#ifdef VP_SIMULATION
#define VP_MARK(name) ::vrampool::sim_hooks::hit(#name)
#define VP_BUG(number) (::vrampool::sim_hooks::planted_bug() == (number))
#else
#define VP_MARK(name) static_cast<void>(0)
#define VP_BUG(number) false
#endif
