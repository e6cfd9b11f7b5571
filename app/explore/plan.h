// The deployment of an exploration: the smallest that the protocol accepts for a scenario, with keys that
// compete for the same slots where their names begin with the same letter.
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
constexpr std::uint32_t least_value_bytes = 32;  // the least size with room for the writer's name

// What the clients and their surroundings may do beside their operations.
struct Bounds {
  std::uint32_t fails = 0;   // requests that fail, executed or not (UC, UD: messages that are lost)
  std::uint32_t cuts = 0;    // failing requests after which reconnecting times out once
  std::uint32_t kills = 0;   // clients that die in the middle of an operation
  std::uint32_t clocks = 0;  // times that every clock passes the expiry period at once
  std::uint32_t late = 0;    // deadlines that pass although what is awaited may still come
  std::uint32_t torn = 0;    // READs and WRITEs of more than one line that are executed in two halves
  // Times that another worker goes on although the one that moved last could go on without waiting for time
  // or for its next operation. None: without bound, and equal orders are made once.
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
  bool is_absent = false;   // no key is there at the start
  std::uint32_t share = 0;  // candidate slots that keys of different letters share
  std::uint32_t value_bytes = least_value_bytes;
  std::vector<std::vector<std::byte>> keys;  // the bytes of the keys that scenario.keys names
  Nanos jump = 0;                            // how far clocks jump (Bounds::clocks)
  // Options that were chosen for the size of the exploration, for the report.
  std::map<std::string, std::string> chosen;

  [[nodiscard]] fabric::NodeId node_of(std::uint32_t client) const {
    return static_cast<fabric::NodeId>(deploy.server_nodes + client);
  }
};

struct PlanRequest {
  const kv::Module* module = nullptr;
  Scenario scenario;
  std::vector<std::pair<std::string, std::string>> settings;  // options of the protocol
  std::string mutant;
  Bounds bounds;
  bool is_absent = false;
  std::uint32_t share = 0;
  std::uint32_t value_bytes = least_value_bytes;
  std::uint32_t window = 1;  // slots of a client worker, of which a client of the scenario has the first
};

// The error is the protocol's own, or says that no keys compete, or that it stores nothing.
[[nodiscard]] Result<Plan> make_plan(PlanRequest request);

}  // namespace loch::explore
