// The matrix of pings between all pairs of nodes, and its verdict: between which pairs, or at which host,
// messages are lost or slow.
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

// The pings of one ordered pair of nodes over one transport: what node `from` sent to node `to`.
struct Cell {
  bool is_there = false;            // whether the nodes differ and have the transport
  std::optional<double> median_us;  // median of the round trips; none if no ping was replied to
  std::optional<double> rate;       // rate of READs or messages sent in bursts, per second
  std::uint64_t sent = 0;           // number of pings and messages sent
  std::uint64_t arrived = 0;  // how many of the sent ones arrived; RC: replied pings and completed READs
  // UC and UD: share of what was sent that did not arrive; none if node `to` did not report what arrived
  std::optional<double> loss;
};

struct Matrix {
  std::vector<std::string> names;  // by node
  std::vector<bool> has_answered;  // indexed by node: whether the node's report arrived
  std::array<bool, transports.size()> has{};
  std::vector<std::array<Cell, transports.size()>> cells;  // indexed by from * nodes + to
  [[nodiscard]] std::size_t nodes() const { return names.size(); }
  [[nodiscard]] const Cell& at(std::size_t from, std::size_t to, std::size_t transport) const {
    return cells[from * nodes() + to][transport];
  }
};

// `reports` is indexed by node; the entry of a node that sent no report is empty.
[[nodiscard]] Matrix make_matrix(std::vector<std::string> names,
                                 const std::vector<std::optional<NodeSeen>>& reports,
                                 const Capabilities& can);

enum class FindingKind : std::uint8_t { silent, unreachable, loss, slow };
[[nodiscard]] std::string_view name(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::silent;
  bool is_fault = true;            // true: runs would fail or become slower; false: only worth a look
  std::vector<std::string> hosts;  // the host, or the pair of hosts, that the finding is about
  std::string text;
};

// If at least this share of the messages is lost, the loss is a fault.
inline constexpr double faulty_loss = 0.01;

// Names the hosts or pairs with unusual loss or round trips. A host is named instead of its pairs if most of
// the lost or slow messages are its own. A round trip is unusual if it is `slow` times the median of all
// pairs.
[[nodiscard]] std::vector<Finding> judge(const Matrix& matrix, double slow);

// The matrix as text, a table for each transport.
[[nodiscard]] std::string to_table(const Matrix& matrix);

}  // namespace loch::fabric::ping
