// The loops of the microbenchmarks: a sender that posts requests of one verb and one size, singly or in
// batches, and a receiver of SENDs. The simulator's calibration, verbs_micro and the micro-* protocols run
// these same loops.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/fabric/fabric.h"

namespace loch::fabric {

struct Traffic {
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  std::uint32_t bytes = 8;  // payload bytes of a request; 8 for CAS and FAA; 0 for a SEND without a payload
  bool is_inline = false;   // whether a WRITE or SEND carries its payload in the work request
  // Number of work requests posted by one doorbell. Only the last of them is signaled, and its completion is
  // awaited.
  std::uint32_t batch = 1;
  std::uint32_t unsignaled = 0;  // number of unsignaled requests that are posted singly before each batch
  std::uint32_t lanes = 1;       // number of queue pairs, used in rotation
  // CAS and FAA: number of 8-byte counters, of which each request draws one at random
  std::uint32_t words = 1;
  // Number of work requests that one call of post_turn() posts: the batch and the unsignaled requests before
  // it.
  [[nodiscard]] std::uint32_t per_turn() const { return unsignaled + batch; }
  [[nodiscard]] bool is_single() const { return batch == 1 && unsignaled == 0; }
};
constexpr std::uint32_t most_batch = 32;

struct Target {
  NodeId node = 0;
  std::uint16_t worker = 0;  // index of the receiving worker (SEND)
  RemoteRegion region;       // region that READ, WRITE, CAS and FAA access
  std::uint64_t offset = 0;
};

// Makes one work request of the given traffic. `local` is its local buffer, which must not be touched until
// the request completes. `turn`, a counter, selects the queue pair.
[[nodiscard]] WorkRequest request_of(const Traffic& traffic, Worker& worker, const Target& target,
                                     LocalSlice local, std::uint32_t turn);
// Posts the unsignaled requests and the batch of `traffic` once, and waits for the completion of the last
// request. `turn`, a counter, selects the queue pair. `traffic` has to outlive the task.
[[nodiscard]] coro::Task<WcStatus> post_turn(Worker* worker, const Traffic* traffic, Target target,
                                             LocalSlice local, std::uint32_t turn, OpStats* stats = nullptr);

// The receive buffers of one worker, which lie one after another in a region from `first` on.
struct Receiving {
  Transport transport = Transport::ud;
  LocalSlice first;
  std::uint32_t payload = 0;  // payload of the largest message, in bytes
  std::uint32_t buffers = 0;
  [[nodiscard]] std::uint32_t buffer_bytes() const {
    return (payload + (transport == Transport::ud ? 40 : 0) + 63) / 64 * 64;
  }
  [[nodiscard]] std::uint64_t region_bytes() const { return std::uint64_t{buffers} * buffer_bytes(); }
};
// Posts all buffers as RECVs. To be called before the run, or on the worker's own thread.
void post_receives(Worker& worker, const Receiving& receiving);

// Counts a worker's messages: all of them, and those from time `from` to time `to` (ns) of the worker's
// clock.
struct Counted {
  Nanos from = 0, to = forever;
  std::uint64_t in_interval = 0, in_all = 0;
  // Counts `n` messages at time `now`. Only the worker's own thread may call it; other threads may call
  // so_far() alone.
  void add(Nanos now, std::uint64_t n = 1) {
    const std::atomic_ref<std::uint64_t> all(in_all);
    all.store(all.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    if (now >= from && now <= to) in_interval += n;
  }
  [[nodiscard]] std::uint64_t so_far() {
    return std::atomic_ref<std::uint64_t>(in_all).load(std::memory_order_relaxed);
  }
};
// The receiver answers each message by one SEND to the message's sender: `to_small` describes the SEND for
// messages of up to `small` bytes, `to_others` the SEND for larger ones.
struct Replies {
  std::uint32_t small = 0;
  const Traffic* to_small = nullptr;
  const Traffic* to_others = nullptr;
  LocalSlice source;
  // For how many ns the receiver tries to reconnect to a sender whose connection broke, before it drops the
  // answer.
  Nanos reconnect_timeout = 100'000'000;
};
// Receives messages until the run stops. The buffer of each message is posted again. Without `replies`, no
// message is answered. What the pointers point to has to outlive the task.
[[nodiscard]] coro::Task<void> receive_all(Worker* worker, const Receiving* receiving, Counted* counted,
                                           const Replies* replies = nullptr);

}  // namespace loch::fabric
