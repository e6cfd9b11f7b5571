// The data path of the verbs fabric. A worker is one thread with one completion queue for the requests that
// it posts and one for the messages that it receives. post() builds work requests of libibverbs. At the end
// of each iteration of the polling loop, the requests that all coroutines have posted on one queue pair are
// given to the device as one chain by one doorbell. After a warm-up, this code makes no allocation, takes no
// lock, throws no exception and makes no system call (a provider may make one for its doorbell, as rxe's
// does).
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/cluster/control.h"
#include "common/fabric/fabric.h"
#include "common/fabric/realtime/mapping.h"
#include "common/fabric/realtime/worker.h"
#include "common/fabric/verbs/device.h"
#include "common/fabric/verbs/endpoint.h"
#include "common/fabric/verbs/send_queue.h"
#include "common/fabric/verbs/silence.h"
#include "common/fabric/verbs/sources.h"

namespace loch::fabric::verbs {

class Connector;

class VerbsRegion final : public Region {
 public:
  // `memories`: the region as it is registered with the device of each rail. Requests of other nodes come by
  // `home`, the node's own rail.
  VerbsRegion(NodeId node, std::uint32_t id, const RegionSpec& spec, realtime::Mapping pages,
              std::vector<MemoryRegion> memories, std::uint32_t home)
      : Region(node, id, spec.name, pages.data(), spec.bytes, Elision{}),
        pages_(std::move(pages)),
        memories_(std::move(memories)),
        address_(reinterpret_cast<std::uintptr_t>(pages_.data())),
        rkey_(memories_.at(home)->rkey) {
    for (std::size_t rail = 0; rail < memories_.size(); ++rail) lkeys_.at(rail) = memories_[rail]->lkey;
  }
  [[nodiscard]] std::uintptr_t address() const { return address_; }  // of the region's first byte
  // The key of local memory in requests that are posted by the given rail.
  [[nodiscard]] std::uint32_t lkey(std::uint32_t rail) const { return lkeys_[rail]; }
  [[nodiscard]] std::uint32_t rkey() const { return rkey_; }

 private:
  realtime::Mapping pages_;
  // declared after pages_, so that the region is deregistered before the pages are unmapped
  std::vector<MemoryRegion> memories_;
  std::uintptr_t address_;
  std::array<std::uint32_t, rails_most> lkeys_{};
  std::uint32_t rkey_;
};

// A peer node's addresses and regions, as a requester uses them. Immutable: when the node restarts, a new
// object replaces this one.
struct Peer {
  NodeRecord record;
  Address address;                   // of the node's own rail, by which it is reached
  ibv_ah* address_handle = nullptr;  // for UD requests to this node
  std::uint64_t regions = 0;         // number of the node's regions
  // Addresses of the regions' first bytes, by region id. Not a vector, because the check of an id against a
  // vector's size() takes a subtraction and a shift.
  std::unique_ptr<std::uint64_t[]> addresses;
  std::vector<std::uint32_t> datagram_qpn;  // UD queue pair number by worker index; 0: no such worker
  std::uint32_t workers = 0;                // size of datagram_qpn, for the same reason
};

struct Shared : realtime::Shared {
  // Ends the run early with an error; of several calls, the first one's reason is reported. Any thread may
  // call it.
  void fail(std::string why) {
    {
      const std::scoped_lock lock(failure_mutex);
      if (failure.empty()) failure = std::move(why);
    }
    has_failed.store(true);
    stopping.store(true);
  }
  [[nodiscard]] std::string failure_text() const {
    const std::scoped_lock lock(failure_mutex);
    return failure;
  }
  std::atomic<bool> has_failed = false;
  mutable std::mutex failure_mutex;
  std::string failure;  // why the run has failed, else empty; guarded by failure_mutex
  // The process's devices by rail. Everything that goes to node n takes the rail n mod (number of rails), so
  // that one NIC alone executes the requests to a node: its atomics exclude each other, and its READs see
  // what it has acknowledged. That rail is the node's *own rail*, where its receive queues are.
  std::vector<Device*> rails;
  std::vector<std::uint8_t> own_rails;  // by node
  [[nodiscard]] std::uint32_t rail_of(NodeId node) const { return own_rails[node]; }
  [[nodiscard]] Device& device_to(NodeId node) const { return *rails[rail_of(node)]; }
  std::optional<DoorbellSharing> doorbells;  // as in VerbsConfig
  // whether the device of any rail returns the old word of an atomic with its bytes reversed
  bool swaps_atomic_replies = false;
  [[nodiscard]] bool has_software() const {
    return std::ranges::any_of(rails, [](const Device* device) { return device->is_software(); });
  }
  cluster::Control* control = nullptr;
  Connector* connector = nullptr;
  std::vector<std::atomic<const Peer*>> peers;  // indexed by node; null until the peer's record has arrived
  // indexed by node: the incarnation that the entry in `peers` belongs to, stored after that entry
  std::vector<std::atomic<std::uint32_t>> incarnations;
  std::array<std::atomic<const DatagramSources*>, rails_most> datagram_sources{};  // by rail
  std::atomic<std::uint32_t> qkey = 0;
  // Whether `node` died, or has restarted and not announced its new regions yet.
  [[nodiscard]] bool is_lost(NodeId node) const {
    return control != nullptr &&
           (control->is_lost(node) ||
            control->incarnation(node) != incarnations[node].load(std::memory_order_relaxed));
  }
};

// One worker's counts of device operations. Any thread may read them; the worker's thread writes them.
struct WorkerCounters {
  std::atomic<std::uint64_t> doorbells = 0;                     // calls of ibv_post_send and ibv_wr_complete
  std::array<std::atomic<std::uint64_t>, rails_most> posted{};  // work requests given to the device, by rail
  std::atomic<std::uint64_t> built = 0;   // those of the work requests that ibv_wr_* posted
  std::atomic<std::uint64_t> parked = 0;  // requests that waited for a send-queue slot or a connection
  std::atomic<std::uint64_t> errors = 0;  // completions other than success, and refused posts
  std::atomic<std::uint64_t> unknown_source = 0;  // messages dropped because no process of this run sent them
};

// Increments a counter that only one thread writes, without a locked instruction.
inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

class VerbsWorker final : public realtime::RealtimeWorker {
 public:
  VerbsWorker(const WorkerSpec& spec, std::uint64_t seed, Shared* shared);
  ~VerbsWorker() override;

  // Makes the completion queues, receive queues and UD queue pairs. Control path, before the threads start.
  [[nodiscard]] Result<> open();
  [[nodiscard]] std::uint32_t datagram_qpn() const { return datagram_.qp.qpn(); }
  [[nodiscard]] std::vector<DatagramSender> further_datagram_senders() const;
  [[nodiscard]] Result<> open_datagram(std::uint32_t qkey);  // called once the run's QKey is known
  // The send queue of `key`. Makes an unconnected one if there is none.
  [[nodiscard]] SendQueue& queue(const LinkKey& key);
  // Takes the current incarnation of every peer as the one that this worker's queue pairs are for. Called
  // before the threads start.
  void adopt_incarnations();
  // The completion queue of the receiving ends that deliver to this worker.
  [[nodiscard]] ibv_cq* receive_cq() const { return receive_cq_.get(); }
  // Returns the shared receive queue for the transport, or null if the worker's spec says that it posts no
  // RECVs for it.
  [[nodiscard]] ibv_srq* shared_receives(Transport transport) const {
    return shared_receives_[static_cast<std::size_t>(transport)].get();
  }
  [[nodiscard]] ibv_cq* send_cq(std::uint32_t rail) const { return rails_[rail].send_cq.get(); }
  // The protection domain of the queue pairs that this worker posts to on the given rail.
  [[nodiscard]] ibv_pd* pd(std::uint32_t rail) const {
    const WorkerDomain& domain = rails_[rail].domain;
    return domain.domain != nullptr ? domain.domain.get() : shared_->rails[rail]->pd();
  }
  // The number of rails on which this worker's queues are in a thread domain.
  [[nodiscard]] std::size_t thread_domains() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(rails_, [](const Rail& rail) { return rail.domain.domain != nullptr; }));
  }
  [[nodiscard]] Sources& sources() { return sources_; }
  // Tells the worker to look at the state of its queues and at the incarnations of its peers. Any thread may
  // call it.
  void notice() { has_notice_.store(true, std::memory_order_release); }

  void do_post(WorkRequest* chain) override;
  void do_post_detached(const WorkRequest& request) override;
  void post_recv(Transport transport, LocalSlice buffer, std::uint32_t length, std::uint64_t user) override;
  [[nodiscard]] bool connected(NodeId peer) const override;
  [[nodiscard]] std::uint32_t epoch(NodeId peer) const override {
    if (peer >= nodes_) [[unlikely]]
      no_such_peer(peer);
    return reach_[peer].epoch;
  }
  [[nodiscard]] bool is_connected_since(NodeId peer, std::uint32_t since) const override;

  const WorkerCounters& counters() const { return counters_; }

 protected:
  void enter_thread() override;
  bool poll_device() override;
  void end_turn() override {
    if (next_staged_ != staging_.data() || staged_receives_ != 0) ring_doorbells();
  }
  [[nodiscard]] bool device_is_busy() const override {
    return outstanding_ != 0 || !waiting_queues_.empty() || !completions_.empty();
  }
  [[nodiscard]] bool owes_completions() const override { return owed_ != 0; }
  bool poll_arrivals(Transport transport, ReceiveWait*& waiters) override;
  [[nodiscard]] bool try_reconnect(NodeId peer) override;

 private:
  // Most work requests that wait for a doorbell at a time, and most completions that one poll takes.
  static constexpr std::uint32_t batch = 32;
  static constexpr int most_completions = 4096;

  // All RC queue pairs to one peer.
  struct Link {
    std::vector<SendQueue*> queues;
    bool is_reconnecting = false;
    std::uint32_t incarnation = 0;  // incarnation of the peer that these queue pairs are for
  };
  // What connected() and epoch() say of a peer. Kept in an array of its own, so that these functions find it
  // by few instructions.
  struct Reach {
    std::uint32_t failed = 0;  // RC queue pairs in the error state; at least 1 while the link is down
    std::uint32_t epoch = 1;
  };
  struct ReceiveSlot {
    LocalSlice buffer;
    std::uint32_t length = 0;
    std::uint64_t user = 0;
  };
  struct Receives {
    std::vector<ReceiveSlot> slots;
    std::vector<std::uint32_t> free;
    // ring of messages not yet taken by a coroutine; as large as the receive queue
    std::vector<Received> arrived;
    std::uint32_t first = 0, count = 0;
    // chain of the RECVs that are to be posted to the device next
    ibv_recv_wr* first_staged = nullptr;
    ibv_recv_wr* last_staged = nullptr;
    [[nodiscard]] std::uint32_t wrapped(std::uint32_t at) const {  // `at` is below twice the ring's size
      const auto around = static_cast<std::uint32_t>(arrived.size());
      return at < around ? at : at - around;
    }
  };

  // What the worker needs to post by one rail.
  struct Rail {
    WorkerDomain domain;  // declared before its queues, so that it is destroyed after them
    CompletionQueue send_cq;
    std::vector<SendQueue*> datagram_lanes;  // the worker's UD queue pairs of the rail, by number
  };

  struct Staged;

  [[nodiscard]] Result<> open_rail(std::uint32_t rail);
  [[nodiscard]] Result<> open_receives(Transport transport);
  [[nodiscard]] Result<> open_landing();
  [[nodiscard]] Result<> open_datagram_lane(SendQueue& lane, std::uint32_t rail, std::uint32_t receive_depth);

  // The functions from here to finish() are defined in post.cc, except give_receives().
  void submit(WorkRequest& request, bool is_detached);
  void submit_any(WorkRequest& request, bool is_detached);
  // What stage_straight() did: nothing, so that submit() has to post the request; staged it; or all there was
  // to do.
  enum class Straight : std::uint8_t { no, staged, posted };
  [[nodiscard]] Straight stage_straight(WorkRequest& request, bool is_detached);
  void build_straight(SendQueue& queue, WorkRequest& request, bool is_detached);
  template <bool is_detached>
  void post_datagram(WorkRequest& request);
  [[nodiscard]] SendQueue* plain_queue(const WorkRequest& request) const;
  void stage_plain(SendQueue& queue, WorkRequest& request, bool is_detached);
  [[nodiscard]] std::uintptr_t keep_inline(const SendQueue& queue, const std::byte* data,
                                           std::uint32_t bytes);
  [[nodiscard]] WcStatus check_local(const WorkRequest& request) const;
  [[nodiscard]] bool has_datagram_worker(const WorkRequest& request) const;
  [[nodiscard]] SendQueue& queue_of(const WorkRequest& request);
  [[nodiscard]] bool can_take(const SendQueue& queue) const;
  [[nodiscard]] bool lands_in_place(const WorkRequest& request) const;
  void post_reversed(const WorkRequest& request);
  [[nodiscard]] Parked* take_parked();
  void park(SendQueue& queue, WorkRequest& request, bool is_detached);
  void stage(SendQueue& queue, WorkRequest& request, bool is_detached, const std::byte* inline_data);
  void address(ibv_send_wr& out, const SendQueue& queue, const WorkRequest& request) const;
  void take(SendQueue& queue);
  void take_into(SendQueue& queue, Staged& staged);
  void ring_doorbell(SendQueue& queue);
  void complete_built(SendQueue& queue);
  void count_doorbell(SendQueue& queue);
  void ring_doorbells();
  void set_most_staged(std::uint32_t most);
  void give_receives();
  void refuse_chain(SendQueue& queue, const ibv_send_wr* bad);
  void refuse_staged(SendQueue& queue, std::uint32_t first);
  bool poll_waiting();
  void finish(WorkRequest& request, WcStatus status);  // completes a request without the device
  void mark_failed(SendQueue& queue);
  // The functions from here on are defined in worker.cc, as are give_receives() and mark_failed().
  [[nodiscard]] bool is_hopeless(const SendQueue& queue) const;
  void drop_parked(SendQueue& queue);
  bool poll_sends();
  bool poll_further_rails();
  std::uint32_t poll_completions(ibv_cq* cq);
  [[gnu::noinline]] void report_silence();
  [[noreturn, gnu::cold, gnu::noinline]] void no_such_peer(NodeId peer) const;
  [[nodiscard, gnu::noinline]] bool connected_by_control(NodeId peer) const;
  void retire(const ibv_wc& wc);
  void retire_any(const ibv_wc& wc);
  void retire_silent(SendQueue& queue, std::uint32_t count);
  void take_old_word(const SendSlot& slot, WorkRequest& request);
  [[nodiscard]] std::uint32_t take_landing_word(bool is_heard);
  void free_landing_word(SendSlot& slot);
  bool drain_receives();
  void arrive(const ibv_wc& wc);
  void heed_notices();
  void heed_incarnations();
  void connect_again(SendQueue& queue);
  void leave(SendQueue& queue);
  void cut(SendQueue& queue);
  void drain(SendQueue& queue);

  Shared* shared_;
  Silence silence_;
  std::uint32_t nodes_;
  // false: a run of one process, in which no node is lost or restarts
  bool has_control_;
  const std::atomic<const Peer*>* peers_;  // the elements of Shared::peers
  std::vector<Rail> rails_;          // by rail; declared before the receive queues, which use its domain
  std::uint32_t own_rail_;           // the node's own rail, by which messages arrive
  ibv_cq* first_send_cq_ = nullptr;  // the send completion queue of the first rail
  bool has_further_rails_;           // whether there is more than one rail
  // How many of the first rail's UD queue pairs post_datagram() may post to: all, or none where there are
  // more rails or where requests are built in the device's send queue (ibv_wr_*).
  std::uint32_t plain_lanes_ = 0;
  std::uint32_t qkey_ = 0;                        // of the run's UD queue pairs
  std::array<std::uint32_t, 2> datagram_most_{};  // bytes of the longest datagram: not inline, inline
  CompletionQueue receive_cq_;
  SharedReceiveQueue shared_receives_[2];  // index 0: RC, 1: UC
  SendQueue datagram_;                     // the worker's first UD queue pair, where datagrams arrive
  std::vector<std::unique_ptr<SendQueue>> queues_;  // owns all send queues but datagram_
  std::vector<Link> links_;                         // RC connections by peer node
  std::vector<Reach> reach_;                        // by peer node
  // By peer node: the first RC queue pair (lane 0) to the peer's worker 0, or no_queue_.
  std::vector<SendQueue*> straight_;
  SendQueue no_queue_;                               // stands where there is no queue pair; takes no requests
  std::vector<std::vector<SendQueue*>> unreliable_;  // UC queue pairs by node
  std::uint32_t outstanding_ = 0;                    // requests outstanding on all queue pairs
  std::uint32_t most_outstanding_ = 0;               // capacity of the smallest send completion queue
  // requests whose completion has not been delivered to its sink yet
  std::uint64_t owed_ = 0;
  std::uint32_t polls_ = 0;
  Sources sources_;

  // Words to which the device writes the old word of an atomic if the atomic has no local buffer or the
  // device reverses the word's bytes. All are in one region, so that a NIC needs a single address
  // translation. Word 0 is for old words that nobody needs.
  std::vector<std::uint64_t> landing_;
  std::vector<std::uint32_t> free_landing_;
  std::vector<MemoryRegion> landing_memories_;  // landing_, as it is registered with the device of each rail

  // A request that is to be posted to the device at the end of this iteration of the polling loop, or as soon
  // as `most_staged_` requests are staged. The fields that are equal in all requests are set once. Inline
  // data is copied to staged_inline_, because the caller may change it after post().
  struct Staged {
    ibv_send_wr request{};
    ibv_sge slice{};
    std::byte* inline_data = nullptr;  // its element of staged_inline_
  };
  std::array<Staged, batch> staging_{};
  alignas(64) std::array<std::array<std::byte, Parked::inline_most>, batch> staged_inline_{};
  // The element of staging_ for the next request. The elements before it hold requests that wait for a
  // doorbell.
  Staged* next_staged_ = staging_.data();
  // How many requests, or RECVs, have to wait for a doorbell for it to be rung at once; 1 before the thread
  // runs.
  std::uint32_t most_staged_ = 1;
  Staged* ring_at_ = staging_.data() + 1;  // the element of staging_ with the index most_staged_
  SendQueue* first_staged_ = nullptr;      // list of the queue pairs with requests that wait for a doorbell
  SendQueue* last_staged_ = nullptr;
  // A RECV that is to be posted to the device at the end of this iteration of the polling loop, before the
  // requests that wait for their doorbell.
  struct StagedReceive {
    ibv_recv_wr request{};
    ibv_sge slice{};
  };
  std::array<StagedReceive, batch> staging_receives_{};
  std::uint32_t staged_receives_ = 0;
  std::array<ibv_wc, batch> completed_{};

  // Requests that completed without the device. Each poll swaps the two lists, then calls the sinks of these
  // requests.
  std::vector<WorkRequest*> completions_, completing_;
  std::vector<SendQueue*> waiting_queues_;  // queue pairs with requests that wait for room or a connection
  std::vector<std::unique_ptr<Parked>> parked_pool_;
  std::vector<Parked*> free_parked_;
  Receives receives_[3];
  std::uint32_t posted_receives_ = 0;
  std::atomic<bool> has_notice_ = false;
  WorkerCounters counters_;
};

}  // namespace loch::fabric::verbs
