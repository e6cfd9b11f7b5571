// A decorator that runs background load alongside a fabric's run: background workers start with the run, are
// counted from the end of the warm-up, and stop with the run. It also records the wall-clock time at which
// the measurement window began, by which power meters are read. The workers are the inner fabric's own, so
// that nothing is added to the data path.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/background_load/cpu_load.h"
#include "common/fabric/fabric.h"

namespace loch::background {

// Name of a counter of the report's entry for this process's first node: hashes computed by all background
// workers since the end of the warm-up.
inline constexpr const char* hashes_counter = "hog_hashes";
inline constexpr const char* cpu_counter =
    "hog_cpu_s";  // CPU seconds of all background workers since the end of the warm-up
// name of a counter: seconds since the end of the warm-up, times the number of background workers
inline constexpr const char* wall_counter = "hog_wall_s";
inline constexpr const char* workers_counter = "hog_workers";
// name of a counter: background workers that ended before the run did
inline constexpr const char* lost_counter = "hog_lost";

class BackgroundFabric : public fabric::Fabric {
 public:
  // Nanoseconds since 1970 at the end of the warm-up; nullopt before it.
  [[nodiscard]] virtual std::optional<std::int64_t> window_began() const = 0;
};

// The processes of `load` wait for go(). They have to be started before `inner` is opened: a fork of a
// process with registered memory may take that memory away from it. A null `load` means no background load:
// only the start of the window is recorded.
[[nodiscard]] std::unique_ptr<BackgroundFabric> with_background(std::unique_ptr<fabric::Fabric> inner,
                                                                std::unique_ptr<CpuLoad> load);

}  // namespace loch::background
