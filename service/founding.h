// How a node becomes a member: it founds a pool, or asks a member of one to admit it.
#pragma once

#include "membership/durable.h"
#include "service/config.h"
#include "service/peers.h"
#include "service/store.h"

namespace vrampool::service {

// This node as the first member of a new pool. Pure but for the clock.
Result<membership::DurableState> found_pool(const Birth& birth, const Config& config, PoolId pool,
                                            std::vector<std::string> addresses);

// Asks the member at the invitation's address. Errors: wrong key, unreachable, refused by the coordinator.
Task<Result<membership::DurableState>> join_pool(Loop& loop, Birth birth, Config config, Invitation invitation,
                                                 std::vector<std::string> addresses);

// What the roster keeps of a machine, so that a copied state directory is refused.
std::string machine_text();

}  // namespace vrampool::service
