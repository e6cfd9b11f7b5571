// Queue pairs as objects: creating one, and moving it through its states. Control path.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/verbs/endpoint.h"

namespace loch::fabric::verbs {

// Deleter of a libibverbs object: calls the function `release`, such as ibv_destroy_qp.
template <auto release>
struct Releaser {
  template <typename T>
  void operator()(T* object) const {
    (void)release(object);
  }
};
template <typename T, auto release>
using Owned = std::unique_ptr<T, Releaser<release>>;

using CompletionQueue = Owned<ibv_cq, ibv_destroy_cq>;
using SharedReceiveQueue = Owned<ibv_srq, ibv_destroy_srq>;
using MemoryRegion = Owned<ibv_mr, ibv_dereg_mr>;
using ProtectionDomain = Owned<ibv_pd, ibv_dealloc_pd>;
using ThreadDomain = Owned<ibv_td, ibv_dealloc_td>;

// The local port that queue pairs send and receive through.
struct Port {
  std::uint8_t number = 1;
  std::uint8_t gid_index = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
  // true: RoCE, where peers are addressed by GID; false: InfiniBand, where peers in a subnet are addressed by
  // LID
  bool is_roce = true;
  // Code n of the local ACK timeout, 4.096 us * 2^n; a request fails after six retries. 14 (67 ms) suits a
  // hardware NIC. Soft-RoCE gets a larger value, because it acknowledges only when its kernel gets a core.
  std::uint8_t ack_timeout = 14;
  // RNR timer code: the time after which a SEND is repeated because its receiver had no buffer posted; 22 is
  // 20 ms. With six repetitions, a server may start 120 ms later than its clients, or be without a core for
  // that time. Other systems use 0.64 ms and repeat without limit.
  std::uint8_t not_ready_timer = 22;
  Address address;
};

struct QueuePairSpec {
  Transport transport = Transport::rc;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;        // null: the queue pair has its own receive queue
  std::uint32_t send_depth = 1;  // capacity in work requests
  std::uint32_t recv_depth = 0;
  std::uint32_t inline_bytes = 0;
  // Operations to be posted by ibv_wr_*, as IBV_QP_EX_WITH_… flags (send_operations()); 0: the queue pair's
  // requests are posted by ibv_post_send.
  std::uint64_t operations = 0;
};

// The operations that requests of the transport need, as IBV_QP_EX_WITH_… flags.
[[nodiscard]] std::uint64_t send_operations(Transport transport, bool has_atomics);

class QueuePair {
 public:
  QueuePair() = default;
  // Creates a queue pair, for posting by ibv_wr_* if spec.operations asks for that and the device has it. The
  // error reads "cannot create …: REASON" and names the limit that is the usual cause.
  [[nodiscard]] static Result<QueuePair> create(ibv_pd* pd, const QueuePairSpec& spec);

  [[nodiscard]] ibv_qp* get() const { return qp_.get(); }
  // The queue pair as ibv_wr_* take it; null: its requests are posted by ibv_post_send.
  [[nodiscard]] ibv_qp_ex* extended() const { return extended_; }
  [[nodiscard]] std::uint32_t qpn() const { return qp_->qp_num; }
  // first packet sequence number that the queue pair sends
  [[nodiscard]] std::uint32_t psn() const { return psn_; }
  [[nodiscard]] std::uint32_t inline_bytes() const { return inline_bytes_; }
  explicit operator bool() const { return qp_ != nullptr; }

  // Moves the queue pair to RESET. Its queued requests are dropped, and the provider removes its completions
  // from its completion queues.
  [[nodiscard]] Result<> reset();
  // Moves the queue pair to INIT (through RESET if it is in another state), with a fresh random PSN.
  [[nodiscard]] Result<> restart(const Port& port);
  // Moves the queue pair from INIT to ready-to-receive, connected to the queue pair `peer` at `address`.
  // `incoming`: the number of READs and atomics that it may have in progress as the responder.
  [[nodiscard]] Result<> receive_from(const Port& port, const Address& address, const LinkRecord& peer,
                                      std::uint32_t incoming);
  // Moves the queue pair from ready-to-receive to ready-to-send. `outgoing`: the number of READs and atomics
  // that it may have outstanding.
  [[nodiscard]] Result<> make_sender(const Port& port, std::uint32_t outgoing);
  // Moves a UD queue pair from INIT to ready-to-send, with the QKey that the run uses.
  [[nodiscard]] Result<> make_datagram(const Port& port, std::uint32_t qkey);
  // Moves the queue pair to the error state: its queued requests complete as flushed, incoming ones are
  // refused.
  [[nodiscard]] Result<> cut();

 private:
  [[nodiscard]] Result<> modify(ibv_qp_attr& attributes, int mask, const char* to);

  Owned<ibv_qp, ibv_destroy_qp> qp_;
  ibv_qp_ex* extended_ = nullptr;
  Transport transport_ = Transport::rc;
  std::uint32_t psn_ = 0;
  std::uint32_t inline_bytes_ = 0;
  bool is_reset_ = false;
};

[[nodiscard]] ibv_mtu to_ibv_mtu(std::uint32_t bytes);
[[nodiscard]] std::uint32_t mtu_bytes(ibv_mtu mtu);
// Address handle attributes of the path from `port` to `address`.
[[nodiscard]] ibv_ah_attr path_to(const Port& port, const Address& address);
// To be called when the device has failed so that posted requests may never complete: prints a line to
// standard error and ends the process with exit status 1. Any thread may call it.
[[noreturn]] void give_up(std::string_view why);
// A random 24-bit packet sequence number, from the kernel's getrandom().
[[nodiscard]] std::uint32_t random_psn();

}  // namespace loch::fabric::verbs
