// Scenarios for people: text files of commands and expectations, run against the simulated pool in calm weather.
//
//   nodes N                                 a pool of N machines, node 0 made it and leads
//   create S at N name NAME [on N,N] [fresh]   also: seal S at N · remove S at N · rename S at N to NAME
//   promote N [abandoning N,N] · forget M at N · leave N
//       all of these may end in "-> status" (ok if nothing is said; "later": do not wait for it)
//   cut A B · cut-one-way A B · mend [A B] · hold A B · release A B · disk-stops N · disk-goes N
//   crash N · reboot N · start N · pause N MS · suspend N MS · run MS
//   expect coordinator N|none · lease N yes|no · life N L · current N life L of M yes|no
//   expect name NAME is S|nothing at N · pieces N COUNT · alive at N: N N ...
//   gate ..., once ...: see Runner::gate and Runner::once
//   bug K                                   with this planted bug the scenario must fail
#pragma once

#include <string>

namespace vrampool::sim {

struct ScenarioResult {
  std::string why;  // empty: all expectations held
  int bug = 0;
};
ScenarioResult run_scenario(const std::string& path, bool trace = false);

}  // namespace vrampool::sim
