// Parts that can be removed from a scenario to make it smaller: operations, clients, keys, nodes, failures,
// simulated faults, options. Each function returns the smaller scenario, whose parts are consistent with each
// other; nullopt if there is nothing to remove. The caller has to test whether the smaller scenario still
// shows the finding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/fuzz/scenario.h"
#include "common/check/history.h"

namespace loch::fuzz {

struct OperationAt {
  std::size_t client = 0, index = 0;
  friend auto operator<=>(const OperationAt&, const OperationAt&) = default;
};
// All operations of the scenario's script, ordered by time.
[[nodiscard]] std::vector<OperationAt> operations_by_time(const FuzzScenario& scenario);
[[nodiscard]] const workloads::ScriptedOperation& operation(const FuzzScenario& scenario, OperationAt at);
// The scenario with only the operations in `kept`, without the clients that have none of these operations.
[[nodiscard]] FuzzScenario keep_operations(FuzzScenario scenario, std::vector<OperationAt> kept);

// Finds the operations of `sub_history`, which was recorded in a run of the scenario, in the scenario's
// script, and returns their positions there.
[[nodiscard]] std::vector<OperationAt> operations_of(const FuzzScenario& scenario,
                                                     const std::vector<check::Operation>& sub_history);

// Moves the final sweep (the GETs and PUTs of every key at the run's end) into the script.
[[nodiscard]] FuzzScenario sweep_in_script(FuzzScenario scenario, const workloads::ScriptedClient& sweep);

// The scenario without the failure at index `place` of the schedule.
[[nodiscard]] FuzzScenario without_failure(FuzzScenario scenario, std::size_t place);
// weaknesses() counts the kinds of simulated faults, such as torn READs; without_weakness() switches one of
// them off, and returns nullopt if it is off already.
[[nodiscard]] std::size_t weaknesses();
[[nodiscard]] std::optional<FuzzScenario> without_weakness(FuzzScenario scenario, std::size_t number);
// Names of the drawn options that can be reset to their defaults, because no other part of the scenario
// relies on them.
[[nodiscard]] std::vector<std::string> droppable_knobs(const FuzzScenario& scenario);
[[nodiscard]] std::optional<FuzzScenario> without_knob(FuzzScenario scenario, const std::string& key);

// Replaces record `from` by record `to` in every operation.
[[nodiscard]] FuzzScenario merge_records(FuzzScenario scenario, std::uint64_t from, std::uint64_t to);
// The records that are accessed by operations, or by the check of all keys at the run's end, ascending.
[[nodiscard]] std::vector<std::uint64_t> records_in_use(const FuzzScenario& scenario);
// The scenario with only the records below `count`; nullopt if another record is in use.
[[nodiscard]] std::optional<FuzzScenario> with_records(FuzzScenario scenario, std::uint64_t count);

// narrower_window(), fewer_workers() and fewer_nodes() return the scenario with a smaller window, fewer
// client workers on each node, or fewer nodes, as far as the script's operations and the failures do not need
// them; nullopt if all are needed.
[[nodiscard]] std::optional<FuzzScenario> narrower_window(FuzzScenario scenario);
[[nodiscard]] std::optional<FuzzScenario> fewer_workers(FuzzScenario scenario);
[[nodiscard]] std::optional<FuzzScenario> fewer_nodes(FuzzScenario scenario);

// Moves every operation and failure that begins at or after `from` earlier by `by` ns.
[[nodiscard]] FuzzScenario sooner(FuzzScenario scenario, Nanos from, Nanos by);

}  // namespace loch::fuzz
