// Pings between all pairs of nodes over RC, UC and UD: round trips, messages a second, and how many messages
// arrived. Every node runs one client worker with play(). All nodes follow one schedule by the fabric's
// common clock, so that a node that does not answer delays no other node.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"

namespace loch::fabric::ping {

inline constexpr std::array transports = {Transport::rc, Transport::uc, Transport::ud};
inline constexpr std::uint32_t most_nodes = 256;

// Lengths of the parts of the schedule, in ns.
struct Plan {
  std::uint32_t nodes = 1;
  Nanos round = 500'000'000;  // length of one round of the tournament
  Nanos reply = 10'000'000;   // how long a ping waits for its reply
  Nanos connect = 0;          // time before the first round, in which queue pairs are connected
  Nanos drain = 200'000'000;  // time after the last round, in which late messages arrive
  [[nodiscard]] Nanos length() const;
};

// What one node measured of one other node over one transport.
struct Seen {
  std::uint64_t pings = 0, replies = 0;
  Nanos median = 0;  // median round trip of the replied pings; 0 if there is none
  // number of messages sent in bursts, including the pings that end the bursts
  std::uint64_t messages = 0;
  Nanos bursts = 0;           // duration of all bursts
  std::uint64_t arrived = 0;  // UC and UD: number of pings and messages that arrived from the other node
  bool operator==(const Seen&) const = default;
};

// What one node measured of all other nodes, indexed by node and transport.
struct NodeSeen {
  NodeId node = 0;
  std::vector<std::array<Seen, transports.size()>> of;
  bool operator==(const NodeSeen&) const = default;
};

// Converts what a node measured to the JSON that processes send each other, and back. The parser refuses
// malformed input.
[[nodiscard]] std::string to_text(const NodeSeen& seen);
[[nodiscard]] Result<NodeSeen> parse_seen(std::string_view text, std::uint32_t nodes);

// A node of this process that takes part in the pings: its memory, its worker and its measurements.
class Player {
 public:
  // Registers memory and adds the worker. To be called before Fabric::exchange().
  [[nodiscard]] static Result<std::unique_ptr<Player>> make(Fabric& fabric, NodeId node, const Plan& plan);
  virtual ~Player() = default;
  // Looks up the memory of the other nodes and posts receive buffers. To be called after Fabric::exchange().
  [[nodiscard]] virtual Result<> join(Fabric& fabric) = 0;
  [[nodiscard]] virtual Worker& worker() = 0;
  // Sets the time (of Worker::now(), the same on all nodes) at which the schedule of pings begins. To be
  // called before the run. Another process can set the time by start_at() while the worker already waits for
  // it.
  virtual void begin_at(Nanos start) = 0;
  [[nodiscard]] virtual coro::Task<void> play() = 0;
  // Returns what the node measured; to be called after the run.
  [[nodiscard]] virtual NodeSeen seen() const = 0;
};

// Tells a node when the schedule of pings begins, by a store into the node's memory. Fails if this process
// cannot access that memory.
[[nodiscard]] Result<> start_at(Fabric& fabric, NodeId node, Nanos start);

}  // namespace loch::fabric::ping
