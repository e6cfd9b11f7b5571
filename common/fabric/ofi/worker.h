// The data path of ofi: one worker is one thread with one endpoint and one completion queue.
//
// Where a provider has no progress of its own, requests to a node move only while some thread of its process
// calls the provider. A worker calls the provider in every round of its polling loop. For workers that do not
// poll (asleep, computing, ended, or not started), the fabric's progress thread (progress.h) calls
// poll_for_idle(). Each of the two threads holds the spinlock `gate_` meanwhile; the progress thread does not
// lock the gate of a worker that polls.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <memory>
#include <optional>
#include <vector>

#include "common/cluster/control.h"
#include "common/fabric/fabric.h"
#include "common/fabric/ofi/lane.h"
#include "common/fabric/ofi/message.h"
#include "common/fabric/ofi/peers.h"
#include "common/fabric/ofi/provider.h"
#include "common/fabric/ofi/ring.h"
#include "common/fabric/realtime/mapping.h"
#include "common/fabric/realtime/worker.h"

namespace loch::fabric::ofi {

class OfiRegion final : public Region {
 public:
  OfiRegion(NodeId node, std::uint32_t id, const RegionSpec& spec, std::uint32_t rkey,
            realtime::Mapping pages)
      : Region(node, id, spec.name, pages.data(), spec.bytes, Elision{}),
        spec_(spec),
        rkey_(rkey),
        pages_(std::move(pages)) {}
  // Registers the region with the provider. To be called before the region is used, when the node's endpoints
  // are open.
  [[nodiscard]] Result<> enlist(Provider& provider, fid_ep* endpoint);
  // Ends the registration, and with it the access of peers.
  void delist() { memory_.reset(); }
  [[nodiscard]] RegionRecord record(const Provider& provider) const;
  // The provider's handle of this memory, to be passed with requests whose local buffer lies in the region.
  [[nodiscard]] void* description() const { return description_; }

 private:
  RegionSpec spec_;
  std::uint32_t rkey_;
  void* description_ = nullptr;
  realtime::Mapping pages_;
  Handle<fid_mr> memory_;  // declared after pages_, so that it is closed before the pages are unmapped
};

// State shared by the workers of this process; constant during the run.
struct Shared : realtime::Shared {
  Provider* provider = nullptr;
  cluster::Control* control = nullptr;
  std::vector<Peer> peers;  // indexed by node
  KeptOrder kept;
  bool waits_for_writes = true;
  [[nodiscard]] bool is_lost(NodeId node) const {
    return control != nullptr && (control->is_lost(node) || control->incarnation(node) != 0);
  }
};

// A spinlock that is hardly ever contended; it is held for some microseconds.
class Gate {
 public:
  [[nodiscard]] bool try_lock() { return !is_shut_.exchange(true, std::memory_order_acquire); }
  void lock();
  void unlock() { is_shut_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> is_shut_ = false;
};

// One worker's counts of operations. Any thread may read them.
struct WorkerCounters {
  std::atomic<std::uint64_t> posted = 0;   // operations given to the provider
  std::atomic<std::uint64_t> again = 0;    // calls that the provider refused for now (FI_EAGAIN)
  std::atomic<std::uint64_t> errors = 0;   // operations that ended in an error
  std::atomic<std::uint64_t> waits = 0;    // tries to start a request that had to wait for an earlier one
  std::atomic<std::uint64_t> dropped = 0;  // messages on UC or UD that found no RECV
  std::atomic<std::uint64_t> assists = 0;  // calls by the progress thread that made progress for this worker
};

class OfiWorker final : public realtime::RealtimeWorker {
 public:
  OfiWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared);
  ~OfiWorker() override;

  // Opens the endpoint and posts its receive buffers. Control path, before the threads start.
  [[nodiscard]] Result<> open();
  [[nodiscard]] fid_ep* endpoint() const { return endpoint_.get(); }
  [[nodiscard]] Result<WorkerRecord> record() const;

  void do_post(WorkRequest* chain) override;
  void do_post_detached(const WorkRequest& request) override;
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override;
  [[nodiscard]] bool connected(NodeId peer) const override;
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override { return links_.at(peer).epoch; }

  // Called by the progress thread. Drives the provider for this worker if the worker has not polled since the
  // last call of this function; returns whether that made progress.
  [[nodiscard]] bool poll_for_idle();

  // Sends a message that its receiver ignores, so that the provider connects this endpoint with another one.
  // The progress thread drives it; has_greeted() says when nothing of it is left to do. Control path.
  void greet(fi_addr_t to);
  [[nodiscard]] bool has_greeted();

  [[nodiscard]] const WorkerCounters& counters() const { return counters_; }

 protected:
  bool poll_device() override;
  [[nodiscard]] bool device_is_busy() const override { return owed_ != 0; }
  [[nodiscard]] bool owes_completions() const override { return owed_ != 0; }
  bool poll_arrivals(Transport transport, ReceiveWait*& waiters) override;
  [[nodiscard]] bool try_reconnect(NodeId peer) override;

 private:
  static constexpr std::uint32_t batch = 32;
  static constexpr std::uint32_t slots_per_block = 32, buffers_per_block = 32;
  static constexpr std::uint32_t receive_buffers = 96;

  struct Link {
    std::vector<std::unique_ptr<Lane>> lanes;
    std::uint32_t failed = 0;  // number of the peer's RC lanes (request queues) that have failed
    std::uint32_t epoch = 1;
    Nanos lost_at = 0;  // when the worker noticed that the peer is lost; 0: it is not
  };
  template <typename T, std::size_t N>
  struct Block {
    std::array<T, N> items;
    Handle<fid_mr> memory;
  };
  // An operation of the provider that has ended, or the arrived answer to a request.
  struct Ended {
    Context* context = nullptr;
    bool is_answer = false;
    WcStatus status = WcStatus::success;
  };
  struct PostedReceive {
    LocalSlice buffer;
    std::uint32_t length = 0;
    std::uint64_t user = 0;
  };
  // A message of which some pieces have arrived and others not, and the RECV to which the pieces are copied.
  struct Partial {
    NodeId from = 0;
    std::uint16_t from_worker = 0;
    Transport transport = Transport::rc;
    PostedReceive into;
  };
  struct Receives {
    Ring<PostedReceive> posted;
    Ring<Received> arrived;
    std::atomic<std::uint32_t> ready = 0;  // size of `arrived`, readable without holding the lock gate_
  };
  // The result of delivering a message or one of its pieces: the message is complete; other pieces are to
  // come, or the message's first piece was lost; no RECV is posted; the RECV is too short.
  enum class Delivery : std::uint8_t { done, more_pieces, no_buffer, too_long };

  // Functions that handle requests, defined in post.cc. All are called with gate_ held.
  void submit(WorkRequest& request, bool is_detached);
  [[nodiscard]] Slot* take_slot();
  void free_slot(Slot* slot);
  [[nodiscard]] Lane& lane_of(const WorkRequest& request);
  [[nodiscard]] WcStatus check_request(const WorkRequest& request) const;
  [[nodiscard]] WcStatus check_remote(const WorkRequest& request) const;
  [[nodiscard]] bool may_start(const Lane& lane, const Slot& slot);
  // Gives waiting requests of the lane (queue of requests to one peer) to the provider, in order, as many as
  // may start.
  void pump(Lane& lane);
  [[nodiscard]] bool start(Slot& slot);  // false: the provider has to be asked again later
  [[nodiscard]] long start_one_sided(Slot& slot);
  [[nodiscard]] bool start_message(Slot& slot);
  [[nodiscard]] bool announce(Slot& slot);
  void await_answer(Slot& slot);
  [[nodiscard]] bool note_start(Slot& slot, long code);
  void fill_header(MessageBuffer& buffer, const Slot& slot) const;
  void end(Slot& slot, WcStatus status);
  void fail_lane(Lane& lane);
  void list(Lane& lane);
  // Removes the requests that have ended from the lane (queue of requests to one peer) and hands over their
  // completions, in order.
  void retire(Lane& lane);

  // Functions that handle completions and messages, defined in worker.cc. All are called with gate_ held.
  bool drain();
  [[nodiscard]] bool drain_error();
  void take_ended();
  void finish_request(Slot& slot, WcStatus status);
  void finish_message(Slot& slot, WcStatus status);
  void visit_lanes();
  void give_up_on_silent_peers();
  void give_up_on_lost_peer(Link& link, Nanos at);
  void abandon(Slot& slot);
  [[nodiscard]] std::uint32_t abandon_messages(const Slot& slot);
  [[nodiscard]] bool was_abandoned(Context& context);
  void receive(MessageBuffer* buffer);
  void receive_answer(const MessageHeader& header);
  // Handles a piece of a SEND or the immediate of a WRITE. Returns false if the message waits in the buffer
  // for a RECV.
  [[nodiscard]] bool receive_message(MessageBuffer* buffer);
  void conclude(const MessageHeader& header, Delivery delivery);
  [[nodiscard]] Delivery deliver(const MessageBuffer& message);
  void complete_message(const MessageHeader& header, const PostedReceive& into);
  [[nodiscard]] Partial* partial_of(const MessageHeader& header);
  void answer(const MessageHeader& asked, WcStatus status);
  void send_unowned(MessageHeader::Kind kind, const MessageHeader& header, fi_addr_t to);
  [[nodiscard]] bool retry_answers();
  [[nodiscard]] bool retry_stalled();
  void post_buffer(MessageBuffer* buffer);
  void post_put_off();
  [[nodiscard]] MessageBuffer* take_buffer();
  void free_buffer(MessageBuffer* buffer);
  template <typename T, std::size_t N>
  [[nodiscard]] Block<T, N>& add_block(std::vector<std::unique_ptr<Block<T, N>>>& blocks);

  Shared* shared_;
  Gate gate_;
  // Declared before the endpoint, so that this memory, which the endpoint uses, outlives it.
  std::vector<std::unique_ptr<Block<Slot, slots_per_block>>> slot_blocks_;
  std::vector<std::unique_ptr<Block<MessageBuffer, buffers_per_block>>> buffer_blocks_;
  Handle<fid_cq> completions_queue_;
  Handle<fid_ep> endpoint_;
  std::vector<Link> links_;
  Lane nowhere_;  // queue of the requests to nodes that do not exist

  std::vector<Slot*> free_slots_;
  std::vector<MessageBuffer*> free_buffers_;
  std::vector<Ended> ended_, ending_;
  std::vector<Lane*> listed_, visiting_;
  std::vector<WorkRequest*> completions_, completing_;
  std::vector<MessageBuffer*> waiting_answers_;
  Ring<MessageBuffer*> stalled_;  // messages on RC that wait for a RECV, in the order of arrival
  std::vector<MessageBuffer*> unposted_buffers_;
  std::vector<Partial> partial_;
  Receives receives_[3];
  std::array<fi_cq_msg_entry, batch> entries_{};
  std::uint32_t limit_ = 0;      // requests wait while this many operations are in flight
  std::uint32_t in_flight_ = 0;  // operations given to the provider that have not ended
  std::uint32_t unanswered_ = 0;
  std::uint64_t owed_ = 0;  // requests whose completion has not been delivered to its sink yet
  std::uint32_t turns_since_look_ = 0;
  std::atomic<std::uint64_t> polls_ = 0;
  std::uint64_t polls_seen_ = 0;  // value of polls_ at the progress thread's previous visit
  WorkerCounters counters_;
};

}  // namespace loch::fabric::ofi
