// Flags of a trace replay: how they define the load, and what the result reports about the replay.
#pragma once

#include <functional>
#include <string>

#include "app/cli/bench_options.h"
#include "common/measure/result.h"

namespace loch::cli {

// If --trace-replay is given: reads the file, and makes the load and the records from it. Refuses flags that
// the trace determines. `has_insert_if_absent`: the protocol has INSERTs, which a trace's `add` becomes (else
// it becomes a PUT). To be called after all other flags were set.
[[nodiscard]] Result<> apply_replay(const std::function<bool(const std::string&)>& is_given,
                                    bool has_insert_if_absent, BenchOptions& options);

// Adds to the result how many of the trace's operations were replayed and skipped, and how late they began. A
// caveat about lateness is put before all other caveats.
void say_replay(const BenchOptions& options, measure::PointResult& point);

}  // namespace loch::cli
