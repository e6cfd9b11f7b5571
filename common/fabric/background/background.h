// A fabric with background workers alongside its run: they begin when it begins, are counted from the end of
// the warm-up on and end when it ends. Also notes when the measurement window began by the wall clock, which
// other instruments (watts) go by. Workers are the inner fabric's own: nothing is on their path.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/background_load/cpu_load.h"
#include "common/fabric/fabric.h"

namespace loch::background {

// Counters of the node that carries the background workers of this process in the fabric's report.
inline constexpr const char* hashes_counter = "hog_hashes";
inline constexpr const char* cpu_counter =
    "hog_cpu_s";  // sum over the background workers, from the end of the warm-up
inline constexpr const char* wall_counter = "hog_wall_s";  // seconds since then, times background workers
inline constexpr const char* workers_counter = "hog_workers";
inline constexpr const char* lost_counter = "hog_lost";  // ended before the run did

class BackgroundFabric : public fabric::Fabric {
 public:
  // Nanoseconds since 1970 at the end of the warm-up; none before it.
  [[nodiscard]] virtual std::optional<std::int64_t> window_began() const = 0;
};

// `hogs` wait for go(), and were started before `inner` was opened: a fork of a process that has memory
// registered with a NIC may take that memory away from it. Null: only the window is noted.
[[nodiscard]] std::unique_ptr<BackgroundFabric> with_background(std::unique_ptr<fabric::Fabric> inner,
                                                                std::unique_ptr<CpuLoad> load);

}  // namespace loch::background
