// What exactly each client does: a list of operations for each window slot, instead of what a mix draws. A
// run can note what its clients did as such a script; followed on the same fabric with the same seed, it is
// the same run.
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
  Nanos at = 0;  // earliest begin (now() time); the operation also waits for the slot's previous one
  friend bool operator==(const ScriptedOperation&, const ScriptedOperation&) = default;
};

struct ScriptedClient {
  fabric::NodeId node = 0;
  std::uint16_t worker = 0;       // client worker of the node
  std::uint32_t slot = 0;         // of its window
  std::uint32_t incarnation = 0;  // of its node: 0, or how often it had restarted with fresh memory
  std::vector<ScriptedOperation> operations;
  [[nodiscard]] bool is_same_client(const ScriptedClient& other) const {
    return node == other.node && worker == other.worker && slot == other.slot &&
           incarnation == other.incarnation;
  }
  friend bool operator==(const ScriptedClient&, const ScriptedClient&) = default;
};

// A slot that is not in it does nothing.
using Script = std::vector<ScriptedClient>;

// The operations of a run's clients, and of the final sweep through the first slot of one client.
struct Transcript {
  Script load;
  ScriptedClient sweep;
};

}  // namespace loch::workloads
