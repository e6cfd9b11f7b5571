// Requests and replies that are both WRITTEN into polled memory of the peer (HERD's kind of request,
// and of reply too): the regions of the local nodes, and what every party knows.
//
//   client                                              server worker
//   stages the request in its slot for that worker
//   WRITE ------------------------------------------->  polls the slots of its row
//                                                       executes, stages the reply in its slot for that
//                                                       client
//   polls the reply slot of that worker  <------ WRITE
//
// A client lane has one request at each server worker at most, in a slot that is its alone, and the reply
// has a slot with one writer. A request that gets no reply is sent again with its sequence number, over a
// new connection if need be; its slot is not used for another request until its reply has come (S2), so
// that nobody overwrites what is being read. Parties of one node store into each other's slots directly.
// A client whose node was restarted does not know what its former incarnation had asked: a server may be
// reading such a request at this moment. It takes its slot over first, by a request that is no longer than
// what a server that executes one reads no more; a server that answers it executes nothing else from that
// slot.
//
//   request   | value   | length   | key   | sequence | trailer |      GET, DELETE: key + 16
//             | V (PUT) | u64 (PUT)| K     | u64      | u64     |      PUT: V + K + 24
//   reply     | value   | trailer |                                    GET: V + 8, else 8
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/fabric/fabric.h"
#include "common/rpc/frame.h"
#include "common/rpc/slots.h"

namespace loch::rpc {

// Bytes of a frame by its code; 0: no such code.
using FrameSizes = std::array<std::uint32_t, 16>;

// What a client sends in front of the trailer, in every request: the sequence number in full.
constexpr std::uint32_t request_tail_bytes = 16;

// The code of the request, and of its reply, by which a client takes its slot over from its former
// incarnation.
constexpr std::uint8_t take_over_code = 15;

// Ways to break it, for mutants: each must be found.
struct ChannelFlaws {
  bool executes_repeated = false;  // no duplicate detection (Q1)
  bool rereads_slot = false;    // the polled request is read again later, when the slot may hold another one
  bool trusts_trailer = false;  // arrival by trailer whatever the fabric says
  bool rewrites_unanswered = false;   // a slot is used again before its reply came (S2)
  bool shares_reply_buffer = false;   // one reply buffer a server worker, reused at once (rule 5)
  bool repeats_word = false;          // a request that is sent again has the word that it had before
  bool ignores_incarnations = false;  // a request is sent again to a server that has crashed since
  bool numbers_from_zero = false;     // a client that comes back numbers its requests from the start
  bool keeps_old_keys = false;        // a node that restarted is addressed with the keys of its lost regions
  bool never_repairs = false;         // a server worker leaves a connection that is down as it is
  bool takes_nothing_over =
      false;  // a client that comes back uses the slots of its former incarnation at once
  bool replies_name_low_bits = false;  // of the number that they answer, so that lives may have the same
};

struct ChannelConfig {
  std::string name;  // of the protocol: its regions are name.requests …
  Parties parties;
  SlotShape request{8, 0, 0}, reply{8, 0, 0};
  FrameSizes request_bytes{}, reply_bytes{};
  fabric::Transport transport = fabric::Transport::rc;  // rc or uc, both ways
  std::uint32_t inline_up_to = 0;                       // bytes; larger messages are fetched by the NIC
  Nanos retry_after = 0;           // time without a reply after which the same request is sent again
  Nanos give_up_after = 0;         // no further attempt after this time
  Nanos reconnect_timeout = 0;     // time of one attempt to reconnect (rc)
  std::uint64_t first_number = 0;  // requests are numbered from here on
  ChannelFlaws flaws;
};

class WriteChannel {
 public:
  // The parts of one node of this process; null where it does not serve, or has no clients.
  struct Node {
    fabric::Region* requests = nullptr;         // [server worker][column]; peers WRITE
    fabric::Region* staged_requests = nullptr;  // [row][lane]
    fabric::Region* replies = nullptr;          // [row][lane]; peers WRITE
    fabric::Region* staged_replies = nullptr;   // [server worker][column]
    bool is_restarted = false;                  // its clients had a former incarnation
  };
  // How a worker reaches another node.
  struct Peer {
    fabric::RemoteRegion requests, replies;
    std::uint32_t epoch = 0;  // of the connection under which the regions were looked up
  };

  explicit WriteChannel(ChannelConfig config);

  // As kv::Store: before and after Fabric::exchange.
  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node);
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric);
  // As kv::Store: the node is back with fresh memory; its callers are made after this.
  void restart_node(fabric::NodeId node);

  [[nodiscard]] const ChannelConfig& config() const { return config_; }
  [[nodiscard]] const SlotGrid& request_grid() const { return requests_; }
  [[nodiscard]] const SlotGrid& reply_grid() const { return replies_; }
  // The senders' copies: the geometry of the other direction, the shape of this one.
  [[nodiscard]] const SlotGrid& staged_request_grid() const { return staged_requests_; }
  [[nodiscard]] const SlotGrid& staged_reply_grid() const { return staged_replies_; }
  [[nodiscard]] const Node& local(fabric::NodeId node) const;
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  // How frames arrive on this worker's fabric. Over UC they are always checked: a WRITE that was given up
  // for lost and sent again may still be on its way, and be placed over the next request.
  [[nodiscard]] Arrival arrival(const fabric::Worker& worker) const {
    if (config_.flaws.trusts_trailer) return Arrival::by_trailer;
    return config_.transport == fabric::Transport::uc ? Arrival::by_check : arrival_on(worker.capabilities());
  }

  // Looks up the regions of a peer that was connected anew. False: it is not there.
  [[nodiscard]] bool refresh(fabric::NodeId node, std::uint32_t epoch, Peer* peer) const;
  // The largest memory that a node needs for it, as far as it is kept.
  [[nodiscard]] std::uint64_t memory_bytes() const;

 private:
  [[nodiscard]] Result<Peer> look_up(fabric::NodeId node) const;
  [[nodiscard]] std::string region(const char* what) const { return config_.name + "." + what; }

  ChannelConfig config_;
  SlotGrid requests_, replies_, staged_requests_, staged_replies_;
  fabric::Fabric* fabric_ = nullptr;
  std::map<fabric::NodeId, Node> nodes_;
  std::vector<Peer> peers_;
};

// Detached, or, where the buffer may be written again before the reply says that it was read, awaited.
[[nodiscard]] fabric::WorkRequest write_request(const ChannelConfig& config, const fabric::Worker& worker,
                                                const fabric::RemoteRegion& remote,
                                                std::uint64_t remote_offset, fabric::LocalSlice local,
                                                std::uint32_t bytes);

}  // namespace loch::rpc
