// Loops of microbenchmarks: one verb of one size, posted singly or in batches, and the receiver of SENDs. The
// simulator's calibration, verbs_micro and the micro-* protocols run these same loops.
#pragma once

#include <atomic>
#include <cstdint>

#include "common/fabric/fabric.h"

namespace loch::fabric {

struct Traffic {
  Verb verb = Verb::read;
  Transport transport = Transport::rc;
  std::uint32_t bytes = 8;  // payload bytes; CAS and FAA: 8; a SEND of 0 bytes has a header alone
  bool is_inline = false;   // WRITE and SEND: the payload is in the work request
  // work requests for each doorbell, of which the last one is signaled and waited for
  std::uint32_t batch = 1;
  std::uint32_t unsignaled = 0;  // requests posted one at a time before each batch, without waiting for them
  std::uint32_t lanes = 1;       // queue pairs, used in turn
  // CAS and FAA: number of 8-byte counters, of which each request draws one at random
  std::uint32_t words = 1;
  // Number of work requests of one turn: the batch, and the unsignaled requests before it.
  [[nodiscard]] std::uint32_t per_turn() const { return unsignaled + batch; }
};
constexpr std::uint32_t most_batch = 32;

struct Target {
  NodeId node = 0;
  std::uint16_t worker = 0;  // index of the receiving worker (SEND)
  RemoteRegion region;       // region that READ, WRITE, CAS and FAA access
  std::uint64_t offset = 0;
};

// Makes one work request of the traffic. `local`: payload bytes, which must not change until its completion.
[[nodiscard]] WorkRequest request_of(const Traffic& traffic, Worker& worker, const Target& target,
                                     LocalSlice local, std::uint32_t turn);
// Posts one turn and waits for the completion of its last work request. `traffic` has to outlive the task.
[[nodiscard]] coro::Task<WcStatus> post_turn(Worker* worker, const Traffic* traffic, Target target,
                                             LocalSlice local, std::uint32_t turn, OpStats* stats = nullptr);

// Receive buffers of one worker, one after another from `first` on.
struct Receiving {
  Transport transport = Transport::ud;
  LocalSlice first;
  std::uint32_t payload = 0;  // largest message in bytes
  std::uint32_t buffers = 0;
  [[nodiscard]] std::uint32_t buffer_bytes() const {
    return (payload + (transport == Transport::ud ? 40 : 0) + 63) / 64 * 64;
  }
  [[nodiscard]] std::uint64_t region_bytes() const { return std::uint64_t{buffers} * buffer_bytes(); }
};
// Posts all buffers as RECVs. To be called before the run, or on the worker's own thread.
void post_receives(Worker& worker, const Receiving& receiving);

// Counts the messages within an interval of the worker's clock.
struct Counted {
  Nanos from = 0, to = forever;
  std::uint64_t in_interval = 0, in_all = 0;
  // Called by its own worker's thread; other threads may only call so_far().
  void add(Nanos now, std::uint64_t n = 1) {
    const std::atomic_ref<std::uint64_t> all(in_all);
    all.store(all.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    if (now >= from && now <= to) in_interval += n;
  }
  [[nodiscard]] std::uint64_t so_far() {
    return std::atomic_ref<std::uint64_t>(in_all).load(std::memory_order_relaxed);
  }
};
// How the receiver answers messages, each by one SEND to the sender: messages of up to `small` bytes by one
// kind of SEND, larger ones by another.
struct Replies {
  std::uint32_t small = 0;
  const Traffic* to_small = nullptr;
  const Traffic* to_others = nullptr;
  LocalSlice source;
  // ns; how long reconnecting to a sender is tried after its connection broke
  Nanos reconnect_timeout = 100'000'000;
};
// Receives messages until the run stops, and posts each buffer again. The arguments have to outlive the task.
// Without `replies` no message is answered.
[[nodiscard]] coro::Task<void> receive_all(Worker* worker, const Receiving* receiving, Counted* counted,
                                           const Replies* replies = nullptr);

}  // namespace loch::fabric
