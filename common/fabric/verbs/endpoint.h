// What processes tell each other in order to connect: nodes with their regions and workers, ends of queue
// pairs, and notices during the run. The format is JSON. A message may come from anyone, so the parsers check
// each field for presence, type and range, and bound every count.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/verbs/choice.h"
#include "common/fabric/verbs/gid.h"

namespace loch::fabric::verbs {

// The network address of a port.
struct Address {
  std::uint16_t lid = 0;  // InfiniBand LID; 0 on RoCE
  Gid gid{};
  // On InfiniBand, true if the port shares its LID with others, as virtual functions do, so that packets need
  // a global routing header even within the subnet.
  bool needs_grh = false;
  std::uint32_t mtu_bytes = 1024;  // MTU of the port; a connection uses the smaller MTU of its two ports
  bool operator==(const Address&) const = default;
};

struct RegionRecord {
  std::string name;
  std::uint64_t address = 0;  // virtual address in the owning process
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  bool operator==(const RegionRecord&) const = default;
};

inline constexpr std::size_t ud_lanes_most = 64;  // upper bound of a worker's UD queue pairs on one rail

// A UD queue pair that only sends.
struct DatagramSender {
  std::uint32_t qpn = 0;
  std::uint8_t rail = 0;  // the rail (the port of its node) that the queue pair uses
  bool operator==(const DatagramSender&) const = default;
};

struct WorkerRecord {
  std::uint16_t index = 0;
  std::uint32_t ud_qpn = 0;  // number of the worker's first UD queue pair, which sends and receives
  std::vector<DatagramSender> ud_also;  // the worker's other UD queue pairs
  bool operator==(const WorkerRecord&) const = default;
};

struct NodeRecord {
  NodeId node = 0;
  std::uint32_t incarnation = 0;      // how often the node's process was restarted (cluster::Control)
  std::vector<Address> addresses;     // by rail; at least one
  std::uint32_t rd_atomic_in = 0;     // READs and atomics that a queue pair can answer at a time
  std::uint32_t rd_atomic_out = 0;    // READs and atomics that a queue pair can have outstanding
  std::uint32_t qkey = 0;             // UD QKey that this node proposes, or that its run uses already
  std::vector<RegionRecord> regions;  // by region id
  std::vector<WorkerRecord> workers;
  bool operator==(const NodeRecord&) const = default;
};

// Names a queue pair by its two ends. Requests go one way, from `node` to `peer`.
struct LinkKey {
  NodeId node = 0;  // the node that posts requests
  std::uint16_t worker = 0;
  NodeId peer = 0;  // the node that receives
  std::uint16_t peer_worker = 0;
  std::uint8_t lane = 0;
  Transport transport = Transport::rc;
  auto operator<=>(const LinkKey&) const = default;
};

// One end of a connected queue pair.
struct LinkRecord {
  LinkKey key;
  std::uint32_t qpn = 0;  // queue pair number, 24 bits
  std::uint32_t psn = 0;  // first packet sequence number that this end sends, 24 bits
  bool operator==(const LinkRecord&) const = default;
};

// One control message between processes during the run.
struct Notice {
  enum class Kind : std::uint8_t {
    connect,        // asks for a connection; `link` is the sender's end, which posts requests
    accept,         // answers `connect`: `link` is the receiving end, which is ready
    refuse,         // answers `connect`: no connection is possible for `link.key`
    reconnect,      // the receiving end of `link.key` broke: connect again
    fence,          // asks to cut every connection from `node`, which is dead
    fenced,         // answers `fence`: connections from `node` are cut
    clients_ended,  // the sender's clients have ended run `number`
    back,           // the sender has restarted; `record` has its new regions
    here,           // answers `back`: `record` is of the sender's node, `number` is that of its current run
  };
  Kind kind = Kind::connect;
  LinkRecord link;
  NodeId node = 0;
  std::uint64_t number = 0;
  NodeRecord record{};  // set in notices of the kinds `back` and `here`
};

struct Limits {
  std::uint32_t nodes = 1;  // valid node ids are 0 to nodes - 1
};

[[nodiscard]] std::string to_text(const NodeRecord& node);
[[nodiscard]] Result<NodeRecord> parse_node(std::string_view text, const Limits& limits);
[[nodiscard]] std::string to_text(const std::vector<LinkRecord>& links);
[[nodiscard]] Result<std::vector<LinkRecord>> parse_links(std::string_view text, const Limits& limits);
[[nodiscard]] std::string to_text(const Notice& notice);
[[nodiscard]] Result<Notice> parse_notice(std::string_view text, const Limits& limits);

}  // namespace loch::fabric::verbs
