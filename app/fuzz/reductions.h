// What may be taken away from a scenario, so that it becomes smaller: operations, clients, keys, nodes,
// failures, weak behaviour, options. Each returns the smaller scenario, whole and consistent, or nothing
// where there is nothing to take. Whether it still shows what it should is the caller's to try.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/fuzz/scenario.h"
#include "common/check/history.h"

namespace loch::fuzz {

// An operation of a script, by its place.
struct OperationAt {
  std::size_t client = 0, index = 0;
  friend auto operator<=>(const OperationAt&, const OperationAt&) = default;
};
// All operations of the scenario's script, by instant.
[[nodiscard]] std::vector<OperationAt> operations_by_time(const FuzzScenario& scenario);
[[nodiscard]] const workloads::ScriptedOperation& operation(const FuzzScenario& scenario, OperationAt at);
// The scenario with only these operations; clients without any are left out.
[[nodiscard]] FuzzScenario keep_operations(FuzzScenario scenario, std::vector<OperationAt> kept);

// The operations of a run's history (and so of its transcript, which is the scenario's script) that a
// sub-history names.
[[nodiscard]] std::vector<OperationAt> operations_of(const FuzzScenario& scenario,
                                                     const std::vector<check::Operation>& sub_history);

// The sweep's operations become the script's, and none are left to the sweep.
[[nodiscard]] FuzzScenario sweep_in_script(FuzzScenario scenario, const workloads::ScriptedClient& sweep);

// The scenario without the failure at this index of the schedule.
[[nodiscard]] FuzzScenario without_failure(FuzzScenario scenario, std::size_t place);
// The scenario without the weak behaviour of this number; none if it is off already.
[[nodiscard]] std::size_t weaknesses();
[[nodiscard]] std::optional<FuzzScenario> without_weakness(FuzzScenario scenario, std::size_t number);
// Options that were drawn and that no other piece of the scenario relies on.
[[nodiscard]] std::vector<std::string> droppable_knobs(const FuzzScenario& scenario);
[[nodiscard]] std::optional<FuzzScenario> without_knob(FuzzScenario scenario, const std::string& key);

// Every operation of record `from` is one of `to`.
[[nodiscard]] FuzzScenario merge_records(FuzzScenario scenario, std::uint64_t from, std::uint64_t to);
// The records that operations or the sweep name, in order.
[[nodiscard]] std::vector<std::uint64_t> records_in_use(const FuzzScenario& scenario);
// No record at or above `count`; nothing where one is in use.
[[nodiscard]] std::optional<FuzzScenario> with_records(FuzzScenario scenario, std::uint64_t count);

// A smaller cluster: without the window slots, client workers or last nodes that do nothing.
[[nodiscard]] std::optional<FuzzScenario> narrower_window(FuzzScenario scenario);
[[nodiscard]] std::optional<FuzzScenario> fewer_workers(FuzzScenario scenario);
[[nodiscard]] std::optional<FuzzScenario> fewer_nodes(FuzzScenario scenario);

// No instant is earlier than it must be: what begins `from` or later begins `by` sooner, failures too.
[[nodiscard]] FuzzScenario sooner(FuzzScenario scenario, Nanos from, Nanos by);

}  // namespace loch::fuzz
