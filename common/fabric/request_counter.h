// Counts the work requests and bytes of one worker, and those of each operation, when they are posted. Only a
// worker that was given a RequestCounter counts (common/fabric/count/count.h gives one to each).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/fabric/wire_table.h"
#include "common/fabric/work_request.h"

namespace loch::fabric {

// A number that one thread adds to and others may read.
class SharedCount {
 public:
  void add(std::uint64_t amount) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  void reset() { base_.store(value_.load(std::memory_order_relaxed), std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t since_reset() const {
    return value_.load(std::memory_order_relaxed) - base_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> value_ = 0, base_ = 0;
};

class RequestCounter {
 public:
  static constexpr std::size_t verbs = 6;
  struct Peer {
    SharedCount requested, responded;  // bytes on the wire of requests to the peer, and of its responses
  };

  // `own`: the worker's node; requests to the node itself cross no wire. `wire`: sizes of requests on the
  // wire; has to outlive the counter. `nodes`: number of peers for which bytes on the wire are counted, or 0.
  RequestCounter(NodeId own, const WireTable* wire, std::uint32_t nodes)
      : own_(own), peer_count_(nodes), wire_(wire), peers_(nodes) {}

  // Counts `first` and the requests that are linked to it.
  void count_chain(const WorkRequest& first) { first.next == nullptr ? count(first) : count_several(&first); }
  void count(const WorkRequest& request);
  // Adds the received message `arrived` and its bytes to the statistics of its operation (`arrived.stats`).
  void attribute(const WorkRequest& arrived);

  [[nodiscard]] const std::array<SharedCount, verbs>& by_verb() const { return by_verb_; }
  [[nodiscard]] const SharedCount& payload() const { return payload_; }
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  void reset();

 private:
  void count_several(const WorkRequest* chain);

  NodeId own_;
  std::uint32_t peer_count_;  // size of peers_, by which a number is checked in fewer instructions
  const WireTable* wire_;
  std::array<SharedCount, verbs> by_verb_;
  SharedCount payload_;
  std::vector<Peer> peers_;
};

}  // namespace loch::fabric
