// Queue pairs as objects: making one, and moving it through its states. Control path.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/verbs/endpoint.h"

namespace loch::fabric::verbs {

// Owns what an ibv_create_… returned.
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

// The port that queue pairs go through.
struct Port {
  std::uint8_t number = 1;
  std::uint8_t gid_index = 0;
  bool is_roce = true;  // addressed by GID; InfiniBand within a subnet by LID
  // How long an ACK may take, 4.096 us * 2^n; six retries later a peer is given up. 14 (67 ms) for
  // a NIC; Soft-RoCE answers when its kernel gets a core.
  std::uint8_t ack_timeout = 14;
  // When a receiver without a buffer is asked again (six times): 24 is 41 ms.
  std::uint8_t not_ready_timer = 24;
  Address address;
};

struct QueuePairSpec {
  Transport transport = Transport::rc;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;        // null: a receive queue of its own
  std::uint32_t send_depth = 1;  // work requests
  std::uint32_t recv_depth = 0;
  std::uint32_t inline_bytes = 0;
};

class QueuePair {
 public:
  QueuePair() = default;
  // "cannot create …: REASON", with the limit that usually is the cause.
  [[nodiscard]] static Result<QueuePair> create(ibv_pd* pd, const QueuePairSpec& spec);

  [[nodiscard]] ibv_qp* get() const { return qp_.get(); }
  [[nodiscard]] std::uint32_t qpn() const { return qp_->qp_num; }
  [[nodiscard]] std::uint32_t psn() const { return psn_; }  // the first that it sends
  [[nodiscard]] std::uint32_t inline_bytes() const { return inline_bytes_; }
  explicit operator bool() const { return qp_ != nullptr; }

  // RESET, then INIT, with a fresh random PSN. What was queued is gone, without completions.
  [[nodiscard]] Result<> restart(const Port& port);
  // INIT to ready to receive from `peer` (its qpn and psn). `incoming`: READs and atomics it answers.
  [[nodiscard]] Result<> receive_from(const Port& port, const Address& address, const LinkRecord& peer,
                                      std::uint32_t incoming);
  // … to ready to send. `outgoing`: READs and atomics outstanding.
  [[nodiscard]] Result<> make_sender(const Port& port, std::uint32_t outgoing);
  // UD: INIT to ready to send, with the run's QKey.
  [[nodiscard]] Result<> make_datagram(const Port& port, std::uint32_t qkey);
  // Moves the queue pair to the error state: queued requests are flushed, incoming ones refused.
  [[nodiscard]] Result<> cut();

 private:
  [[nodiscard]] Result<> modify(ibv_qp_attr& attributes, int mask, const char* to);

  Owned<ibv_qp, ibv_destroy_qp> qp_;
  Transport transport_ = Transport::rc;
  std::uint32_t psn_ = 0;
  std::uint32_t inline_bytes_ = 0;
};

[[nodiscard]] ibv_mtu to_ibv_mtu(std::uint32_t bytes);
[[nodiscard]] std::uint32_t mtu_bytes(ibv_mtu mtu);
// The address handle attributes of a path that reaches `address` from `port`.
[[nodiscard]] ibv_ah_attr path_to(const Port& port, const Address& address);
// The device has failed in a way after which nothing that this process posted need ever complete: says so on
// standard error and ends the process with exit status 1, as a lost device does to its machine. Any thread.
[[noreturn]] void give_up(std::string_view why);
// 24 random bits from the kernel.
[[nodiscard]] std::uint32_t random_psn();

}  // namespace loch::fabric::verbs
