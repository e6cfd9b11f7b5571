// Points (measurements) that run one after the other on one deployed and preloaded store, on fabrics whose
// registrations and connections do not survive a fork.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "app/cli/bench.h"

namespace loch::cli {

// Whether a point may begin with the store that another one's load has used: on verbs and ofi, if its load
// only GETs and PUTs preloaded records of one size, and nothing is recorded, injected or throttled that would
// begin with the deployment.
[[nodiscard]] bool can_follow(const BenchOptions& options);

// Called in this process when a point of run_on_one_store() begins and when it has ended.
struct PointEvents {
  std::function<void(std::size_t point)> begins;
  // `cpu_s`: CPU time in seconds that the point has taken in all processes on this machine
  std::function<void(std::size_t point, int status, double cpu_s)> has_ended;
};
// Runs the first of the points, and then those that follow on the same store as long as it is fit for them:
// the point before has succeeded, none of its operations failed, no node was lost, its network was not sick,
// and the store serves further loads. The points differ in flags of the load alone. Every process of several
// calls it, and all run the same points.
void run_on_one_store(std::span<const BenchOptions* const> points, const kv::Module& module,
                      const Place& place, const PointEvents& events);

}  // namespace loch::cli
