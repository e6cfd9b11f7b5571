// Requests and replies by WRITE into memory that the peer polls (HERD's kind of request, for replies too).
// This header has the regions of the local nodes and the configuration that clients and servers share.
//
//   client                                              server worker
//   prepares the request in its slot for that worker
//   WRITE ------------------------------------------->  polls the slots of its row
//                                                       executes, prepares the reply in its slot for that
//                                                       client
//   polls the reply slot of that worker  <------ WRITE
//
// A client lane (one window slot of a client worker) has at most one request at each server worker, in a slot
// of its own; the reply has a slot with one writer. A request that gets no reply is sent again with the same
// sequence number, over a new connection if necessary. Its slot is not used for another request until its
// reply has come, so that a request is not overwritten while the server reads it. A client and a server on
// the same node store into each other's slots directly. A restarted client does not know which requests its
// earlier incarnation has sent: a server may be reading one at this moment. So the client first takes its
// slot over with a request so short that it does not overwrite bytes that a server still reads; a server that
// answers it executes no earlier request of that slot. In the frames, K and V are the bytes of a key and of a
// value.
//
//   request   | value   | length   | key   | sequence | trailer |      GET, DELETE: key + 16
//             | V (PUT) | u64 (PUT)| K     | u64      | u64     |      PUT: V + K + 24
//   reply     | value   | trailer |                                    GET: V + 8, else 8
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/fabric.h"
#include "common/rpc/duplicates.h"
#include "common/rpc/frame.h"
#include "common/rpc/slots.h"

namespace loch::rpc {

// The size in bytes of each frame, by the code in its trailer (last word); 0: no such code.
using FrameSizes = std::array<std::uint32_t, 16>;

// Bytes that the client adds at the end of every request: the full sequence number and the trailer (last
// word, which the server polls).
constexpr std::uint32_t request_tail_bytes = 16;

// The code of a request, and of its reply, by which a restarted client takes over a slot from its earlier
// incarnation: once the server has answered it, no earlier request in the slot is executed.
constexpr std::uint8_t take_over_code = 15;

// Known-bad variants of the channel, for mutants that the tests have to find.
struct ChannelFlaws {
  bool executes_repeated = false;  // true: a repeated request is executed again
  // true: the polled request is read again later, when the slot may hold another one
  bool rereads_slot = false;
  // true: a trailer (last word) counts as proof that its frame has arrived, even if bytes may be placed out
  // of order
  bool trusts_trailer = false;
  // true: a slot gets another request before the reply to the request in it has come
  bool rewrites_unanswered = false;
  // true: all replies of a server worker share one buffer, which is reused while the NIC may still read it
  // (against rule 5 of fabric.h).
  bool shares_reply_buffer = false;
  // true: a repeated request has the same trailer (polled last word), so that the server does not notice it
  bool repeats_word = false;
  // true: a request is sent again to a server that has restarted after the first attempt
  bool ignores_incarnations = false;
  bool numbers_from_zero = false;  // true: a restarted client repeats its first request numbers
  bool keeps_old_keys = false;     // true: a restarted node is addressed with the rkeys of its lost regions
  bool never_repairs = false;      // true: a server worker never reconnects a broken connection
  // true: a restarted client uses its slots although requests of its earlier incarnation may be in them
  bool takes_nothing_over = false;
  bool replies_name_low_bits = false;  // replies carry only the low 16 bits of the request's number
};

struct ChannelConfig {
  std::string name;  // the protocol's name: the regions are called NAME.requests and so on
  Parties parties;
  SlotShape request{8, 0, 0}, reply{8, 0, 0};
  FrameSizes request_bytes{}, reply_bytes{};
  fabric::Transport transport = fabric::Transport::rc;  // transport of requests and replies: rc or uc
  // Largest message in bytes that is inlined; larger ones are fetched by the NIC.
  std::uint32_t inline_up_to = 0;
  Nanos retry_after = 0;        // ns without a reply after which the same request is sent again
  Nanos give_up_after = 0;      // ns after which a call makes no further attempt
  Nanos reconnect_timeout = 0;  // ns that one attempt to reconnect may take (only RC reconnects)
  // The low 16 bits of the number before a client's first request; 0: they come from the clock.
  std::uint64_t first_number = 0;
  ChannelFlaws flaws;
};

class WriteChannel {
 public:
  // The slots of one node of this process. A region is null if the node has no servers or no clients to use
  // it.
  struct Node {
    // slots into which clients WRITE requests: [server worker of the node][client window slot of the cluster]
    fabric::Region* requests = nullptr;
    // slots in which clients prepare requests that they WRITE: [server of the cluster][client window slot of
    // the node]
    fabric::Region* staged_requests = nullptr;
    // slots into which servers WRITE replies: [server worker of the cluster][client window slot of the node]
    fabric::Region* replies = nullptr;
    // slots in which servers prepare replies that they WRITE: [server of the node][client window slot of the
    // cluster]
    fabric::Region* staged_replies = nullptr;
    // What each server worker knows of its request slots, by server worker; kept from one run of the fabric
    // to the next, so that a request of an earlier run that is still in its slot is not executed again.
    // Shared with the server, which may outlive a restart of its node by a moment.
    std::vector<std::shared_ptr<Duplicates>> known;
    // whether the node was restarted, so that its clients had an earlier incarnation
    bool is_restarted = false;
  };
  // How one worker addresses the regions of another node.
  struct Peer {
    fabric::RemoteRegion requests, replies;
    // The connection (by its number, Worker::epoch) over which the regions were looked up.
    std::uint32_t epoch = 0;
  };

  explicit WriteChannel(ChannelConfig config);

  // Steps of a deployment, as in kv::Store: setup_node() runs before Fabric::exchange, connect() after it.
  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node);
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric);
  // Prepares a node that was restarted with fresh memory, as in kv::Store. To be called before WriteCallers
  // of the node are made.
  void restart_node(fabric::NodeId node);

  [[nodiscard]] const ChannelConfig& config() const { return config_; }
  [[nodiscard]] const SlotGrid& request_grid() const { return requests_; }
  [[nodiscard]] const SlotGrid& reply_grid() const { return replies_; }
  // The slots in which senders prepare messages before they WRITE them: a message has the same layout there
  // as in the receiver's slot.
  [[nodiscard]] const SlotGrid& staged_request_grid() const { return staged_requests_; }
  [[nodiscard]] const SlotGrid& staged_reply_grid() const { return staged_replies_; }
  [[nodiscard]] const Node& local(fabric::NodeId node) const;
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  // How this worker tells that a frame has arrived. Over UC, always by the frame's checksum: a WRITE that was
  // believed lost and sent again may still be in the network, and be placed over the next request.
  [[nodiscard]] Arrival arrival(const fabric::Worker& worker) const {
    if (config_.flaws.trusts_trailer) return Arrival::by_trailer;
    return config_.transport == fabric::Transport::uc ? Arrival::by_check : arrival_on(worker.capabilities());
  }

  // Looks up the regions of a peer again if its connection is a new one. Returns false if they cannot be
  // found.
  [[nodiscard]] bool refresh(fabric::NodeId node, std::uint32_t epoch, Peer* peer) const;
  // The registered memory in bytes that the channel needs on a node, at most; bytes that a simulation does
  // not store are not counted.
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  [[nodiscard]] Result<Peer> look_up(fabric::NodeId node) const;
  void forget_requests(fabric::NodeId node);
  [[nodiscard]] std::string region(const char* what) const { return config_.name + "." + what; }

  ChannelConfig config_;
  SlotGrid requests_, replies_, staged_requests_, staged_replies_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, Node> nodes_;
  std::vector<Peer> peers_;
};

// Makes the WRITE of a frame. The caller posts it without awaiting its completion (detached), or awaits it if
// the buffer may be changed before a reply says that it was read.
[[nodiscard]] inline fabric::WorkRequest write_request(const ChannelConfig& config,
                                                       const fabric::Worker& worker,
                                                       const fabric::RemoteRegion& remote,
                                                       std::uint64_t remote_offset, fabric::LocalSlice local,
                                                       std::uint32_t bytes) {
  fabric::WorkRequest request;
  request.verb = fabric::Verb::write;
  request.transport = config.transport;
  request.is_inline = bytes <= std::min(config.inline_up_to, worker.capabilities().max_inline_bytes);
  request.peer = remote.node;
  request.remote = remote;
  request.remote_offset = remote_offset;
  request.local = local;
  request.length = bytes;
  return request;
}

}  // namespace loch::rpc
