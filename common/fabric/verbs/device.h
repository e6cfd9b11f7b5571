// An open RDMA device of this machine: its context, protection domain, the port and GID in use, and its
// capabilities. Control path.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/verbs/choice.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/queue_pair.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::fabric::verbs {

// The thread domain of one worker, and the parent domain in which the worker's queues are made. Only the
// worker's thread uses these queues, so that the provider needs no locks and gives the thread its own
// doorbell register. The parent domain wraps the device's protection domain, so regions that are registered
// in the latter can be used without further registration.
struct WorkerDomain {
  ThreadDomain thread;
  ProtectionDomain domain;  // null: the device has no thread domains, or has run out of them
};

class Device {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Device>> open(const Chosen& chosen, const VerbsConfig& config);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }
  // Makes the domain of one worker. If the device refuses it, sets errno and returns an empty one.
  [[nodiscard]] WorkerDomain make_worker_domain() const;
  // Makes a completion queue that only one thread polls, without locks if the device offers that. While that
  // thread polls, no other thread may reset or destroy a queue pair that uses the completion queue, because
  // the provider then removes the queue pair's completions from that completion queue. `domain` may be null.
  // If the queue cannot be made, returns null and sets errno.
  [[nodiscard]] CompletionQueue make_private_queue(int entries, ibv_pd* domain) const;
  [[nodiscard]] const Port& port() const { return port_; }
  // Makes senders wait up to 1 s, that is 6 retries, for a receiver that has no buffer posted because its
  // worker lost its core.
  // To be called before any queue pair is connected.
  void wait_for_receivers() { port_.not_ready_timer = 28; }  // 28: code of an RNR timer of 164 ms
  // Sets the traffic class of packets; to be called before any queue pair is connected to another process.
  void set_traffic_class(std::uint8_t traffic_class) { port_.traffic_class = traffic_class; }
  [[nodiscard]] const Address& address() const { return port_.address; }
  [[nodiscard]] const Capabilities& capabilities() const { return capabilities_; }
  // The device's name, as libibverbs and the kernel's files have it.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& firmware() const { return firmware_; }
  // The number of READs and atomics that a queue pair of this device can have in progress as the responder.
  [[nodiscard]] std::uint32_t rd_atomic_in() const { return rd_atomic_in_; }
  [[nodiscard]] int most_completions() const { return most_completions_; }
  // Whether the device is Soft-RoCE, where this machine's kernel does the NIC's work and needs cores for it.
  [[nodiscard]] bool is_software() const { return is_software_; }
  // The operations that queue pairs of the transport are to post by ibv_wr_*, for QueuePairSpec; 0 if the
  // device does not have that.
  [[nodiscard]] std::uint64_t operations(Transport transport) const {
    return operations_[static_cast<std::size_t>(transport)];
  }
  // Whether the requests of all transports that the device has are posted by ibv_wr_*.
  [[nodiscard]] bool posts_extended() const {
    const Capabilities& can = capabilities_;
    return (!can.rc || operations(Transport::rc) != 0) && (!can.uc || operations(Transport::uc) != 0) &&
           (!can.ud || operations(Transport::ud) != 0);
  }
  // Whether the old word of an atomic arrives with its bytes reversed, as on some devices. Found by trial
  // when the device is opened.
  [[nodiscard]] bool swaps_atomic_replies() const { return swaps_atomic_replies_; }

 private:
  Device() = default;
  [[nodiscard]] Result<> take_port(const Chosen& chosen);
  [[nodiscard]] Result<> query();
  [[nodiscard]] Result<> try_queue_pairs();
  void try_extended();
  [[nodiscard]] Result<QueuePair> connect_to_itself(Transport transport, ibv_cq* cq) const;
  [[nodiscard]] Result<> ask_order();
  [[nodiscard]] Result<> try_atomics();

  Owned<ibv_context, ibv_close_device> context_;
  ProtectionDomain pd_;
  Port port_;
  std::string name_, firmware_;
  Capabilities capabilities_;
  std::uint32_t rd_atomic_in_ = 0;
  int most_completions_ = 0;
  bool swaps_atomic_replies_ = false;
  bool is_software_ = false;
  std::array<std::uint64_t, 3> operations_{};  // by transport, see operations()
};

}  // namespace loch::fabric::verbs
