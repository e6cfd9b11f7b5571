// Posts a microbenchmark's work requests, and receives and answers its messages.
#include "common/fabric/traffic.h"

#include <array>
#include <span>

#include "common/base/check.h"

namespace loch::fabric {
WorkRequest request_of(const Traffic& traffic, Worker& worker, const Target& target, LocalSlice local,
                       std::uint32_t turn) {
  WorkRequest wr;
  wr.verb = traffic.verb;
  wr.transport = traffic.transport;
  wr.is_inline = traffic.is_inline && traffic.bytes > 0 && traffic.verb != Verb::read;
  wr.lane = static_cast<std::uint8_t>(turn % traffic.lanes);
  wr.peer = target.node;
  wr.peer_worker = target.worker;
  wr.length = traffic.bytes;
  wr.local = local;
  wr.remote = target.region;
  wr.remote_offset = target.offset;
  if (is_atomic(traffic.verb)) {
    wr.length = 8;
    wr.local = {};
    wr.is_inline = false;
    wr.operand = traffic.verb == Verb::faa ? 1 : 0;
    wr.remote_offset += traffic.words > 1 ? worker.rng().below(traffic.words) * 8 : 0;
  }
  return wr;
}

namespace {

coro::Task<WcStatus> post_single(Worker* worker, const Traffic* traffic, Target target, LocalSlice local,
                                 std::uint32_t turn, OpStats* stats) {
  WorkRequest wr = request_of(*traffic, *worker, target, local, turn);
  wr.stats = stats;
  const Completion done = co_await worker->execute(wr);
  co_return done.status;
}

coro::Task<WcStatus> post_batch(Worker* worker, const Traffic* traffic, Target target, LocalSlice local,
                                std::uint32_t turn, OpStats* stats) {
  for (std::uint32_t i = 0; i < traffic->unsignaled; ++i) {
    WorkRequest wr = request_of(*traffic, *worker, target, local, turn);
    wr.stats = stats;
    worker->post_detached(wr);
  }
  std::array<WorkRequest, most_batch> chain;
  const std::span<WorkRequest> used(chain.data(), traffic->batch);
  for (WorkRequest& wr : used) {
    wr = request_of(*traffic, *worker, target, local, turn);
    wr.stats = stats;
    wr.is_signaled = &wr == &used.back();
  }
  co_return co_await worker->post_and_wait(used);
}

}  // namespace

coro::Task<WcStatus> post_turn(Worker* worker, const Traffic* traffic, Target target, LocalSlice local,
                               std::uint32_t turn, OpStats* stats) {
  LOCH_CHECK(traffic->batch >= 1 && traffic->batch <= most_batch, "a batch of {}", traffic->batch);
  return traffic->is_single() ? post_single(worker, traffic, target, local, turn, stats)
                              : post_batch(worker, traffic, target, local, turn, stats);
}

void post_receives(Worker& worker, const Receiving& receiving) {
  LocalSlice buffer = receiving.first;
  for (std::uint32_t i = 0; i < receiving.buffers; ++i) {
    worker.post_recv(receiving.transport, buffer, receiving.buffer_bytes(), i);
    buffer.offset += receiving.buffer_bytes();
  }
}

coro::Task<void> receive_all(Worker* worker, const Receiving* receiving, Counted* counted,
                             const Replies* replies) {
  for (;;) {
    const Received got = co_await worker->receive(receiving->transport);
    if (got.outcome == Received::Outcome::stopping) co_return;
    LOCH_CHECK(got.outcome == Received::Outcome::message, "a receive without a deadline timed out");
    counted->add(worker->now());
    worker->post_recv(receiving->transport, got.buffer, receiving->buffer_bytes(), got.user);
    if (replies == nullptr) continue;
    if (receiving->transport == Transport::rc && !worker->connected(got.from)) {
      const Nanos deadline = worker->now() + replies->reconnect_timeout;
      const bool is_back = co_await worker->reconnect(got.from, deadline);
      if (!is_back) continue;
    }
    const Target sender{.node = got.from, .worker = got.from_worker, .region = {}, .offset = 0};
    const Traffic& reply = got.length <= replies->small ? *replies->to_small : *replies->to_others;
    const WorkRequest answer = request_of(reply, *worker, sender, replies->source, 0);
    worker->post_detached(answer);
  }
}

}  // namespace loch::fabric
