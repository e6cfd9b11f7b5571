// What processes tell each other to connect: nodes with their regions and workers, ends of queue
// pairs, and notices during the run. JSON; everything that is parsed may come from anyone, so each
// field is checked for presence, type and range, and counts are bounded.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/verbs/gid.h"

namespace loch::fabric::verbs {

// How a port is reached.
struct Address {
  std::uint16_t lid = 0;  // InfiniBand; 0 on RoCE
  Gid gid{};
  // InfiniBand: the port shares its LID with others (virtual functions do), so that packets need a global
  // routing header even within the subnet.
  bool needs_grh = false;
  std::uint32_t mtu_bytes = 1024;  // of the active path: both ends use the lesser
  bool operator==(const Address&) const = default;
};

struct RegionRecord {
  std::string name;
  std::uint64_t address = 0;  // virtual address in its process
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  bool operator==(const RegionRecord&) const = default;
};

inline constexpr std::size_t ud_lanes_most = 64;  // of a worker

struct WorkerRecord {
  std::uint16_t index = 0;
  std::uint32_t ud_qpn = 0;            // of the UD queue pair that receives, and sends lane 0
  std::vector<std::uint32_t> ud_also;  // of the lanes behind: it only sends from them
  bool operator==(const WorkerRecord&) const = default;
};

struct NodeRecord {
  NodeId node = 0;
  std::uint32_t incarnation = 0;  // incarnation of the node's process (cluster::Control)
  Address address;
  std::uint32_t rd_atomic_in = 0;     // READs and atomics that it answers at once, a queue pair
  std::uint32_t rd_atomic_out = 0;    // that it has outstanding
  std::uint32_t qkey = 0;             // node 0's is the run's
  std::vector<RegionRecord> regions;  // by id
  std::vector<WorkerRecord> workers;
  bool operator==(const NodeRecord&) const = default;
};

// Names a directed queue pair.
struct LinkKey {
  NodeId node = 0;  // the posting node
  std::uint16_t worker = 0;
  NodeId peer = 0;  // the node at the receiving end
  std::uint16_t peer_worker = 0;
  std::uint8_t lane = 0;
  Transport transport = Transport::rc;
  auto operator<=>(const LinkKey&) const = default;
};

// One end of it.
struct LinkRecord {
  LinkKey key;
  std::uint32_t qpn = 0;  // 24 bits
  std::uint32_t psn = 0;  // 24 bits: the first that this end sends
  bool operator==(const LinkRecord&) const = default;
};

// One message during the run.
struct Notice {
  enum class Kind : std::uint8_t {
    connect,        // link: the posting end, anew
    accept,         // link: the receiving end, ready
    refuse,         // link.key: cannot be had
    reconnect,      // link.key: the receiving end broke; connect again
    fence,          // node: cut it off; answer with fenced
    fenced,         // node
    clients_ended,  // `number`: the run whose clients have ended
    back,           // record: of the sender, started again, whose regions are new; answer with here
    here,           // record: of the sender; number: its run
  };
  Kind kind = Kind::connect;
  LinkRecord link;
  NodeId node = 0;
  std::uint64_t number = 0;
  NodeRecord record{};  // back and here
};

struct Limits {
  std::uint32_t nodes = 1;  // node ids are below
};

[[nodiscard]] std::string to_text(const NodeRecord& node);
[[nodiscard]] Result<NodeRecord> parse_node(std::string_view text, const Limits& limits);
[[nodiscard]] std::string to_text(const std::vector<LinkRecord>& links);
[[nodiscard]] Result<std::vector<LinkRecord>> parse_links(std::string_view text, const Limits& limits);
[[nodiscard]] std::string to_text(const Notice& notice);
[[nodiscard]] Result<Notice> parse_notice(std::string_view text, const Limits& limits);

}  // namespace loch::fabric::verbs
