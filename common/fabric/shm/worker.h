// The data path of shm: one worker is one thread. post() executes a request at once, on the issuing thread;
// its completion stays in the worker's queue until the worker polls next. No function here allocates, locks,
// throws or enters the kernel per operation after warm-up (realtime/worker.h says when a worker yields its
// core).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/realtime/worker.h"
#include "common/fabric/shm/job.h"
#include "common/fabric/shm/receive_ring.h"
#include "common/fabric/shm/region.h"

namespace loch::fabric::shm {

// A node's regions and receive areas in the address space of this process; they do not change after
// exchange().
struct NodeTable {
  std::vector<MappedRegion> regions;        // by region id
  std::vector<ReceiveArea*> receive_areas;  // receive areas of the node's workers, by worker index
};

// State shared by the workers of this process; constant during the run.
struct Shared : realtime::Shared {
  std::vector<NodeTable> nodes;
  Job* job = nullptr;  // the memory shared by the run's processes; null if the run has one process
  [[nodiscard]] bool is_lost(NodeId node) const { return job != nullptr && job->is_lost(node); }
};

class ShmWorker final : public realtime::RealtimeWorker {
 public:
  // ns after which an RC SEND fails if the peer has no receive buffer
  static constexpr Nanos rnr_patience = 1'000'000'000;
  static constexpr std::uint32_t max_inline_bytes = 256;

  ShmWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared, ReceiveArea* receive_area);

  void do_post(WorkRequest* chain) override;
  void do_post_detached(const WorkRequest& request) override;
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override;
  [[nodiscard]] bool connected(NodeId peer) const override;
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override { return links_.at(peer).epoch; }
  [[nodiscard]] bool is_connected_since(NodeId peer, std::uint32_t since) const override {
    const Link& link = links_.at(peer);
    return link.failed_lanes == 0 && link.epoch == since && !shared_->is_lost(peer);
  }

  // Makes the worker's links to all nodes. To be called on the control path, when the regions and receive
  // areas of all nodes are known, before the threads start.
  void connect();
  // Adds a region of this node. Regions are added in the order of their ids.
  void add_region(Region* region) { regions_.push_back(region); }

 protected:
  // A request must not end before the sinks of earlier requests have been told.
  [[nodiscard]] bool do_execute_at_once(const WorkRequest& request) override;
  bool poll_device() override;
  [[nodiscard]] bool device_is_busy() const override { return !stalled_.empty(); }
  [[nodiscard]] bool owes_completions() const override { return completions_ != nullptr; }
  bool poll_arrivals(Transport transport, ReceiveWait*& waiters) override;
  [[nodiscard]] bool try_reconnect(NodeId peer) override;
  [[nodiscard]] bool arm_doorbell() override;
  void disarm_doorbell() override { doorbell_.disarm(); }
  void sleep_until_rung(Nanos most) override { doorbell_.sleep(most); }
  void has_stored(const Region& region, std::uint64_t offset) override {
    ring_doorbells(region.node(), region.id(), offset, 8);
  }

 private:
  // State of the RC queue pairs to one peer, and where the peer's memory is. Bit i of a mask is for the queue
  // pair with number i (WorkRequest::lane).
  struct Link {
    std::uint64_t failed_lanes = 0;
    // mask of the queue pairs on which a SEND waits for a receive buffer of the peer; later requests wait
    // behind it
    std::uint64_t stalled_lanes = 0;
    const MappedRegion* regions = nullptr;  // by region id
    ReceiveArea* const* areas = nullptr;    // receive areas of the peer's workers, by worker index
    std::uint32_t region_count = 0, area_count = 0;
    std::uint32_t epoch = 1;
  };
  // What is copied from a request that waits, because the caller may reuse the memory after post(): the
  // inline payload, and the request itself if it is detached (nobody waits for its completion).
  struct Copy {
    WorkRequest request;
    std::byte inline_data[max_inline_bytes];
  };
  struct Stalled {
    WorkRequest* request;
    Copy* copy;      // null if the request is neither inline nor detached (nobody waits for it)
    Nanos deadline;  // time at which the SEND fails; 0 until its first retry
    bool is_detached;
  };
  enum class Attempt : std::uint8_t { done, not_ready };

  void submit(WorkRequest& request, bool is_detached);
  // The fast path for a valid READ or WRITE to a peer on whose queue pairs no request has failed or is
  // waiting. Returns false if it did nothing; submit() then executes or refuses the request.
  [[nodiscard]] bool perform_plain(const WorkRequest& request);
  // The fast path for a valid datagram to a worker that is there. Returns false if it did nothing.
  [[nodiscard]] bool perform_datagram(const WorkRequest& request);
  void hand_over(ReceiveSlot& slot, const WorkRequest& request, Doorbell& doorbell);
  void post_plain(WorkRequest& request);
  void post_datagram(WorkRequest& request);
  // Executes the request and sets its status, unless it returns not_ready. `inline_data`: copy of the inline
  // payload; null: the payload is in the local buffer.
  [[nodiscard]] Attempt perform(WorkRequest& request, const std::byte* inline_data);
  [[nodiscard]] WcStatus one_sided(WorkRequest& request, const std::byte* inline_data);
  [[nodiscard]] Attempt deliver(WorkRequest& request, const std::byte* payload, std::uint32_t payload_bytes);
  [[nodiscard]] WcStatus check_local(const WorkRequest& request) const;
  void retire(WorkRequest& request, bool is_detached);
  void complete(WorkRequest& request) {
    request.next = nullptr;
    *completions_end_ = &request;
    completions_end_ = &request.next;
  }
  [[gnu::noinline]] void tell_sinks();
  void stall(WorkRequest& request, bool is_detached);

  bool poll_stalled();
  // Wakes those workers of `node` that sleep and wait for a change of the given bytes of a region.
  void ring_doorbells(NodeId node, std::uint32_t region, std::uint64_t offset, std::uint64_t bytes);
  void fill(Received& message, const ReceiveSlot& slot) const;

  Shared* shared_;
  std::vector<Region*> regions_;
  std::vector<Link> links_;  // links to peers, indexed by node
  std::uint32_t nodes_ = 0;  // number of links_

  // Completed requests whose completion callbacks (sinks) have not been called yet, in order of completion,
  // linked by WorkRequest::next.
  WorkRequest* completions_ = nullptr;
  WorkRequest** completions_end_ = &completions_;
  std::vector<Stalled> stalled_;
  std::vector<std::unique_ptr<Copy>> copies_;
  std::vector<Copy*> free_copies_;
  ReceiveQueue receive_[3];
  Doorbell& doorbell_;
  std::uint32_t posted_receives_[3] = {};
};

}  // namespace loch::fabric::shm
