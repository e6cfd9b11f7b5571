// A decorator that runs background load (processes that only compute) alongside a fabric's run: they start
// with the run, are measured from the end of the warm-up on, and stop with the run. It also records the
// wall-clock time at which the warm-up ended, so that a power meter's readings can be cut to the measured
// part. Protocols use the inner fabric's own workers, so that nothing is added to the data path.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/background_load/cpu_load.h"
#include "common/fabric/fabric.h"

namespace loch::background {

// Name of a counter in the report's entry for this process's first node: hashes computed by all background
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
  // Nanoseconds since 1970 when the counters were last reset, which ends the warm-up; nullopt before it.
  [[nodiscard]] virtual std::optional<std::int64_t> counters_reset() const = 0;
};

// Has the processes of `load` begin when run() is called. They have to be forked before `inner` is opened: a
// fork of a process with registered memory may take that memory away from it. A null `load` means no
// background load: only the start of the measured part is recorded.
[[nodiscard]] std::unique_ptr<BackgroundFabric> with_background(std::unique_ptr<fabric::Fabric> inner,
                                                                std::unique_ptr<CpuLoad> load);

}  // namespace loch::background
