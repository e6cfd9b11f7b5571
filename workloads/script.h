// Scripts: a fixed list of operations for each window slot (place for one operation), instead of draws from
// an operation mix. A run can record what its clients did as a script; executing the script on the same
// fabric with the same seed repeats the run exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/fabric/fabric.h"
#include "common/measure/tally.h"

namespace loch::workloads {

struct ScriptedOperation {
  OpKind kind = OpKind::get;
  std::uint64_t record = 0;
  Nanos at = 0;  // earliest begin, in now() time; the operation also waits for the slot's previous one
  friend bool operator==(const ScriptedOperation&, const ScriptedOperation&) = default;
};

struct ScriptedClient {
  fabric::NodeId node = 0;
  std::uint16_t worker = 0;       // client worker's index on its node
  std::uint32_t slot = 0;         // slot's index in the worker's window
  std::uint32_t incarnation = 0;  // incarnation of the node: how often it had restarted with fresh memory
  std::vector<ScriptedOperation> operations;
  [[nodiscard]] bool is_same_client(const ScriptedClient& other) const {
    return node == other.node && worker == other.worker && slot == other.slot &&
           incarnation == other.incarnation;
  }
  friend bool operator==(const ScriptedClient&, const ScriptedClient&) = default;
};

// The operations of each window slot (place for one operation); a slot without an entry does nothing.
using Script = std::vector<ScriptedClient>;

// Recorded operations of a run's clients, and of the final sweep, in which one window slot (place for one
// operation) of one client reads and writes the keys after the load.
struct Transcript {
  Script load;
  ScriptedClient sweep;
};

}  // namespace loch::workloads
