// Where the things of a drawn finding lie: lanes by client, and a time axis on which every operation has
// room.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/fuzz/scenario.h"
#include "common/check/history.h"

namespace loch::fuzz {

struct DrawnOperation {
  const check::Operation* operation = nullptr;
  std::string label;     // "PUT A = w3.1 ok"
  std::size_t lane = 0;  // of its client
  std::size_t key = 0;   // by first use
  bool contradicts = false;
  double from = 0, to = 0;  // x
};

struct DrawnFailure {
  std::string label;     // "crash"
  std::size_t node = 0;  // place in Layout::nodes
  Nanos at = 0, until = 0;
  double from = 0, to = 0;  // x
};

struct Layout {
  std::vector<DrawnOperation> operations;  // ordered by their beginning
  std::vector<DrawnFailure> failures;
  std::vector<std::string> lanes;  // names of the clients
  std::vector<std::string> nodes;  // rows of failures: nodes of which something fails, and repairs
  std::vector<std::string> keys;   // full names of the keys
  std::map<Nanos, double> ticks;   // instants at which something begins or ends, and their x
  double width = 0;
  std::uint64_t left_out = 0;  // operations that are not drawn
};

[[nodiscard]] Layout lay_out(const FuzzScenario& scenario, const std::vector<check::Operation>& history,
                             const std::vector<check::Operation>& sub_history);

// "A", …, "Z", "K27", …: what the drawing calls a key.
[[nodiscard]] std::string key_letter(std::size_t key);

}  // namespace loch::fuzz
