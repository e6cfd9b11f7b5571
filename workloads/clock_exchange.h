// Compares the clocks of the processes of a run by a ping-pong of WRITEs over the fabric, so that their
// histories can be judged as one (check::ClockMap). The clock of the lowest node that has clients is the
// reference. A peer WRITEs a number into the reference node's memory, and the reference node's client worker
// 0 WRITEs the number back with the time of the reference clock; the peer compares the clocks by a row of
// such questions (check::compare_clocks). Clocks are compared before the load, while no client issues an
// operation; every quarter of a second during the load, beside the operations of client worker 0; and when
// the process's clients have ended.
//
// Region "loch.clocks" of every node that has clients, in slots of 64 bytes, one for each node of the
// cluster:
//   on the reference node, slot n: what node n WRITEs: the last comparison of its clock (time, offset, error,
//     shortest round trip, each in ns), and in the last word the number of its question for the time;
//   on another node, slot 0: the answer (clock << 16 | number) in the last word, slot 1: the start sign.
// A second part of the same size holds what the node itself WRITEs to others.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/result.h"
#include "common/check/clock_map.h"
#include "common/coro/task.h"
#include "common/fabric/fabric.h"

namespace loch::workloads {

class ClockExchange {
 public:
  // Registers the region of the local node `own`. `participants` are the nodes that have clients, in
  // ascending order, this process's node among them. To be called before Fabric::exchange.
  [[nodiscard]] static Result<std::unique_ptr<ClockExchange>> make(fabric::Fabric& fabric,
                                                                   std::vector<fabric::NodeId> participants,
                                                                   fabric::NodeId own, std::uint32_t clients);

  // ---- Called by client worker 0 of the node --------------------------------------------------
  // Compares this process's clock with the reference clock before the load. Ends when all processes have done
  // so, so that their loads begin together.
  coro::Task<void> align_first(fabric::Worker* worker);
  // Compares this process's clock with the reference clock during and after the load; ends when all clients
  // of all processes have ended.
  coro::Task<void> keep_aligned(fabric::Worker* worker);

  // ---- May be called by any client worker of the node --------------------------------------------
  [[nodiscard]] bool has_begun() const { return has_begun_.load(); }
  void client_ended() { clients_left_.fetch_sub(1); }

  // ---- To be called after the run -------------------------------------------------------------
  // The comparisons of this process's clock with the reference clock; none on the reference node.
  [[nodiscard]] const std::vector<check::ClockSample>& samples() const { return samples_; }
  // On the reference node: of each other node, its last comparison of clocks, as that node sent it; used for
  // nodes that died before they could report it themselves.
  [[nodiscard]] std::map<fabric::NodeId, check::ClockSample> told() const;
  [[nodiscard]] bool is_reference() const { return own_ == reference(); }
  [[nodiscard]] fabric::NodeId reference() const { return participants_.front(); }

 private:
  struct Peer {
    fabric::NodeId node = 0;
    fabric::RemoteRegion region;
    bool is_aligned = false, has_ended = false;
    Nanos heard = 0;  // time at which this peer's last question arrived
  };
  ClockExchange(fabric::Fabric& fabric, std::vector<fabric::NodeId> participants, fabric::NodeId own,
                std::uint32_t clients)
      : fabric_(fabric), participants_(std::move(participants)), own_(own), clients_left_(clients) {}

  static bool is_question(void* context, std::uint32_t index, std::uint64_t word);
  [[nodiscard]] bool look_up();
  void write_word(fabric::Worker& worker, const fabric::RemoteRegion& to, std::uint64_t offset,
                  std::uint64_t staged, std::uint64_t value) const;
  [[nodiscard]] bool is_asked() const;
  [[nodiscard]] bool is_answered(std::uint64_t number) const;
  void answer(fabric::Worker& worker, std::uint32_t node);
  coro::Task<void> answer_until_idle(fabric::Worker* worker, Nanos deadline);
  coro::Task<void> tell(fabric::Worker* worker, std::uint64_t word);
  coro::Task<bool> measure(fabric::Worker* worker, int rounds, Nanos most, Nanos wait);
  coro::Task<void> lead_first(fabric::Worker* worker);
  coro::Task<void> lead_on(fabric::Worker* worker);
  template <typename Done>
  [[nodiscard]] bool are_all(const fabric::Worker& worker, Done done) const;

  fabric::Fabric& fabric_;
  std::vector<fabric::NodeId> participants_;
  fabric::NodeId own_;
  fabric::Region* region_ = nullptr;
  // on the reference node: all other nodes; on any other node: the reference node
  std::vector<Peer> peers_;
  std::vector<std::uint64_t> seen_;  // the reference node's: the question that each node asked last
  std::uint64_t number_ = 0;
  std::vector<check::ClockAnswer> answers_;  // to the questions of the comparison that is being made
  std::vector<check::ClockSample> samples_;
  bool is_usable_ = false;
  std::atomic<bool> has_begun_{false};
  std::atomic<std::uint32_t> clients_left_;
};

}  // namespace loch::workloads
