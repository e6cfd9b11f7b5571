// A server worker: polls its request slots, executes requests on its own partition, and replies.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/coro/task.h"
#include "common/fabric/fabric.h"
#include "common/rpc/datagram.h"
#include "common/rpc/duplicates.h"
#include "herd_em/settings.h"

namespace loch::herd {

struct ServerCounts {
  std::uint64_t requests = 0, batches = 0, repeated = 0, stale = 0, drains = 0;
};

// State of a server worker, made before the run and outliving it. Used only by that worker's thread.
class Server {
 public:
  // `index` is the worker's number among the node's server workers; `slots` and `replies` are the node's
  // regions.
  Server(const Settings& settings, std::uint32_t index, fabric::Region& slots, fabric::Region& replies);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The worker's main coroutine; returns when worker.stopping().
  [[nodiscard]] coro::Task<void> run(fabric::Worker& worker);

  [[nodiscard]] Partition& partition() { return partition_; }
  [[nodiscard]] const ServerCounts& counts() const { return counts_; }
  [[nodiscard]] rpc::DatagramCounts datagrams() const {
    return sender_ == nullptr ? rpc::DatagramCounts() : sender_->counts();
  }

 private:
  // A request fetched from its request slot.
  struct Request {
    std::uint32_t slot = 0;
    SlotFormat::Request what;
    std::vector<std::byte> value;
    Nanos prefetched_at = 0;
  };
  // Who writes to a request slot: the address of the client worker, and which of its window slots
  // (outstanding operations).
  struct Sender {
    rpc::DatagramAddress address;
    std::uint32_t window_slot = 0;
  };
  struct Answer {
    bool is_due = false;
    std::uint32_t length = 0;
  };

  static bool is_ready(void* self, std::uint32_t slot, std::uint64_t word);
  [[nodiscard, gnu::noinline]] static bool is_any_ready(Server* server, std::uint32_t slot,
                                                        std::uint64_t word);
  [[nodiscard]] std::uint64_t slot_at(std::uint32_t slot) const {
    return first_slot_ + std::uint64_t{slot} * settings_.format.slot_bytes;
  }
  [[nodiscard]] bool is_polled(std::uint32_t slot) const;
  [[nodiscard]] bool has_request(std::uint32_t slot, std::uint64_t word) const;
  [[nodiscard]] bool has_polled_request(std::uint32_t slot, std::uint64_t word) const {
    return word != 0 && is_polled(slot) && has_request(slot, word);
  }
  // Fetches the request in the request slot; false if the slot has no new request, or changed while the
  // request was copied.
  [[nodiscard]] bool fetch(std::uint32_t slot, Request& into);
  [[nodiscard]] bool fetch_kept(std::uint32_t slot, Request& into);
  void collect(std::uint32_t first);
  [[nodiscard]] bool collect_one(std::uint32_t first);
  void advance(std::uint32_t slot);

  // serve_by_pipeline() (HERD 2014) and serve_by_batches() serve requests until the run is over.
  [[nodiscard]] coro::Task<void> serve_by_pipeline(fabric::Worker& worker, fabric::WatchSet set);
  [[nodiscard]] coro::Task<void> serve_by_batches(fabric::Worker& worker, fabric::WatchSet set);
  [[nodiscard]] coro::Task<void> serve_batch(fabric::Worker& worker);
  void leave_pipeline();
  void go_to_entry();
  void enter_pipeline();
  void move_on(bool has_new);
  [[nodiscard]] Nanos batch_cost() const;
  // Executes the request and sends its reply. The caller has waited until `sender_` has room for a reply.
  void answer(Request& request);

  // Executes the request and writes its reply to `out`.
  [[nodiscard]] Answer execute(Request& request, std::byte* out);
  [[nodiscard]] Answer execute_fresh(Request& request, std::byte* out);
  [[nodiscard]] Answer change(Request& request, std::byte* out);
  [[nodiscard]] Answer repeat(Request& request, std::byte* out);
  // CPU time of the steps of a request, computed once; all 0 on a fabric that charges no CPU time.
  struct Charges {
    // by operation: fetching the first request of a poll over all request slots, or a later one
    Nanos fetch_first[ops] = {}, fetch_next[ops] = {};
    Nanos search = 0, issue = 0, entry = 0, memory = 0;
    bool operator==(const Charges&) const = default;
  };
  [[nodiscard]] Charges charges_of(const fabric::CpuCosts& costs) const;
  [[nodiscard]] static Nanos stall(Nanos memory, Nanos since) { return since < memory ? memory - since : 0; }
  // The time at which a prefetch was issued; 0 if memory accesses are not charged, because the time is then
  // not used.
  [[nodiscard]] Nanos issued_at(const fabric::Worker& worker) const {
    return charges_.memory != 0 ? worker.now() : 0;
  }

  const Settings& settings_;
  Charges charges_;
  bool is_charged_ = false;  // whether any step takes charged CPU time
  std::uint32_t index_;
  std::uint64_t first_slot_;  // offset in `slots_` of this worker's first request slot
  std::uint64_t word_at_;     // offset in a request slot of the word that is polled
  std::uint32_t slot_bytes_, slot_count_;
  // Address of the key of a GET in the first request slot, if is_ready() and collect_one() can check and
  // fetch GETs by themselves; else null.
  const std::byte* first_key_ = nullptr;
  fabric::Region& slots_;
  fabric::Region& replies_;
  Partition partition_;
  rpc::Duplicates duplicates_;
  // Request slot and polled word of a complete request that polling has found and that is not fetched yet; if
  // the word is 0, there is none.
  std::uint32_t whole_slot_ = 0;
  std::uint64_t whole_word_ = 0;
  // the copy of the request in whole_slot_ that polling made when it checked the request, if it made one
  SlotFormat::Kept kept_;
  SlotFormat::PartsOfAll parts_;           // where the parts of each operation's request lie; set by run()
  std::vector<Sender> senders_;            // indexed by request slot
  std::vector<std::uint8_t> last_status_;  // indexed by request slot: status of the last PUT or DELETE
  // In the published variant: for each client, the only request slot that the server polls.
  std::vector<std::uint32_t> next_slot_;
  std::unique_ptr<rpc::DatagramSender> sender_;
  std::vector<Request> requests_;  // memory of the requests of a batch and of the pipeline
  std::vector<Request*> batch_;
  std::uint32_t collected_ = 0;
  std::uint32_t start_ = 0;  // request slot at which the next poll starts
  // The pipeline: a request whose bucket is being prefetched, and one whose log entry is being prefetched.
  Request* at_bucket_;
  Request* at_entry_;
  bool has_bucket_ = false, has_entry_ = false;
  std::uint16_t fabric_index_ = 0;
  ServerCounts counts_;
};

}  // namespace loch::herd
