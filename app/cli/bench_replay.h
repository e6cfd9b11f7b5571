// A trace instead of a mix: what its flags come to, and what the result says of it.
#pragma once

#include <functional>
#include <string>

#include "app/cli/bench_options.h"
#include "common/measure/result.h"

namespace loch::cli {

// With --trace-replay reads the file and makes the load and the records of it; flags that a trace decides are
// refused. `has_insert_if_absent`: the protocol has INSERTs, which a trace's `add` becomes (else a PUT).
// After all flags were set.
[[nodiscard]] Result<> apply_replay(const std::function<bool(const std::string&)>& is_given,
                                    bool has_insert_if_absent, BenchOptions& options);

// Adds to the point what was replayed, skipped and late. The sentence on lateness is the first of the
// caveats.
void say_replay(const BenchOptions& options, measure::PointResult& point);

}  // namespace loch::cli
