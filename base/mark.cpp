#include "base/mark.h"

namespace vrampool::sim_hooks {

std::map<std::string, std::uint64_t>& marks() {
  static std::map<std::string, std::uint64_t> table;
  return table;
}
void hit(const char* mark) { ++marks()[mark]; }
int& planted_bug() {
  static int number = 0;
  return number;
}

}  // namespace vrampool::sim_hooks
