// The deployment for an exploration: the smallest that the protocol accepts for the scenario, with keys that
// compete for the same slots if their names begin with the same letter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/explore/scenario.h"
#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/kv/protocol.h"

namespace loch::explore {

constexpr std::uint32_t key_bytes = 16;
constexpr std::uint32_t least_value_bytes = 32;  // the smallest value with room for the writer's name

// Largest numbers of failures and other events that an exploration adds to the clients' operations.
struct Bounds {
  std::uint32_t fails = 0;   // most requests that fail, executed or not (on UC and UD: lost messages)
  std::uint32_t cuts = 0;    // most failing requests after which reconnecting times out once
  std::uint32_t kills = 0;   // most clients that die in the middle of an operation
  std::uint32_t clocks = 0;  // how often every clock may pass the expiry period at once
  std::uint32_t late = 0;    // most deadlines that pass although the awaited event may still come
  std::uint32_t torn = 0;    // most READs and WRITEs of several cache lines that are executed in two halves
  // Most context switches: how often another worker may take a step although the last one could go on without
  // waiting for time or for its next operation. nullopt: any number, and of equivalent orders only one is
  // explored.
  std::optional<std::uint32_t> switches = {};
};

struct Plan {
  const kv::Module* module = nullptr;
  Scenario scenario;
  kv::Options options;
  std::string mutant;
  kv::DeployConfig deploy;
  fabric::Capabilities capabilities;
  Bounds bounds;
  bool is_absent = false;   // true: the keys are absent initially
  std::uint32_t share = 0;  // number of candidate slots that keys with different first letters share
  std::uint32_t value_bytes = least_value_bytes;
  std::vector<std::vector<std::byte>> keys;  // bytes of the keys named in scenario.keys
  Nanos jump = 0;                            // ns by which Bounds::clocks advances the clocks
  // Values of the options that were chosen to keep the exploration small, for the report.
  std::map<std::string, std::string> chosen;

  [[nodiscard]] fabric::NodeId node_of(std::uint32_t client) const {
    return static_cast<fabric::NodeId>(deploy.server_nodes + client);
  }
};

struct PlanRequest {
  const kv::Module* module = nullptr;
  Scenario scenario;
  std::vector<std::pair<std::string, std::string>> settings;  // protocol options that the caller sets
  std::string mutant;
  Bounds bounds;
  bool is_absent = false;
  std::uint32_t share = 0;
  std::uint32_t value_bytes = least_value_bytes;
  std::uint32_t window = 1;  // window of a client worker; a scenario's client uses its first slot only
};

// Makes a plan. Fails if the protocol accepts no size of the deployment or stores no values, or if an
// operation before the exploration does not end.
[[nodiscard]] Result<Plan> make_plan(PlanRequest request);

}  // namespace loch::explore
