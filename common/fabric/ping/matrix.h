// The matrix of pings between all pairs of nodes, and its verdict: which pair or host stands out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/ping/pings.h"

namespace loch::fabric::ping {

// One ordered pair over one transport: what `from` sent to `to`.
struct Cell {
  bool is_there = false;            // the transport is there, and the nodes differ
  std::optional<double> median_us;  // of the round trips; none if no ping was replied to
  std::optional<double> rate;       // READs or messages a second, sent in bursts
  std::uint64_t sent = 0;           // pings and messages
  std::uint64_t arrived = 0;        // of those; RC: replied pings and completed READs
  std::optional<double> loss;       // share of UC's and UD's that did not arrive; none if `to` gave no answer
};

struct Matrix {
  std::vector<std::string> names;  // by node
  std::vector<bool> has_answered;  // by node: whether its report came
  std::array<bool, transports.size()> has{};
  std::vector<std::array<Cell, transports.size()>> cells;  // by from * nodes + to
  [[nodiscard]] std::size_t nodes() const { return names.size(); }
  [[nodiscard]] const Cell& at(std::size_t from, std::size_t to, std::size_t transport) const {
    return cells[from * nodes() + to][transport];
  }
};

// `reports`: by node; none from a node that gave no answer.
[[nodiscard]] Matrix make_matrix(std::vector<std::string> names,
                                 const std::vector<std::optional<NodeSeen>>& reports,
                                 const Capabilities& can);

enum class FindingKind : std::uint8_t { silent, unreachable, loss, slow };
[[nodiscard]] std::string_view name(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::silent;
  bool is_fault = true;            // runs would fail or suffer; otherwise only worth a look
  std::vector<std::string> hosts;  // the host or the pair that stands out
  std::string text;
};

// A loss of this share of the messages or more is a fault.
inline constexpr double faulty_loss = 0.01;

// Names what stands out. A host is named instead of its pairs if most of the trouble is its own. A round trip
// stands out if it is `slow` times the median of all pairs.
[[nodiscard]] std::vector<Finding> judge(const Matrix& matrix, double slow);

// The matrix as text, a table for each transport.
[[nodiscard]] std::string to_table(const Matrix& matrix);

}  // namespace loch::fabric::ping
