// Positions in the drawing of a finding: one horizontal lane (row) for each client, and a time axis with room
// for every operation's label.
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
  std::string label;     // such as "PUT A = w3.1 ok"
  std::size_t lane = 0;  // the row of the operation's client: index in Layout::lanes
  std::size_t key = 0;   // the operation's key: index in Layout::keys
  bool contradicts = false;
  double from = 0, to = 0;  // x coordinates of the begin and end
};

struct DrawnFailure {
  std::string label;     // such as "crash"
  std::size_t node = 0;  // the row of the failed node: index in Layout::nodes
  Nanos at = 0, until = 0;
  double from = 0, to = 0;  // x coordinates of the begin and end
};

struct Layout {
  std::vector<DrawnOperation> operations;  // ordered by their begin
  std::vector<DrawnFailure> failures;
  std::vector<std::string> lanes;  // names of the rows, one row for each client
  std::vector<std::string> nodes;  // names of the rows for failures: nodes with failures, and "repairs"
  std::vector<std::string> keys;   // full names of the keys
  std::map<Nanos, double> ticks;   // times at which something begins or ends, with their x coordinates
  double width = 0;
  std::uint64_t left_out = 0;  // number of operations not drawn
};

[[nodiscard]] Layout lay_out(const FuzzScenario& scenario, const std::vector<check::Operation>& history,
                             const std::vector<check::Operation>& sub_history);

// The drawing's name of a key: "A", …, "Z", "K27", ….
[[nodiscard]] std::string key_letter(std::size_t key);

}  // namespace loch::fuzz
