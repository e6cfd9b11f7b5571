// Runs requests of one verb and size between many simulated nodes and one, and measures their rate and
// latency.
#include "common/fabric/sim/microbenchmark.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/fabric/sim/sim.h"

namespace loch::fabric::sim {
namespace {

// bytes of memory of a posting worker, for payloads, READ data and counters
constexpr std::uint64_t posting_bytes = 1 << 20;
constexpr std::uint32_t slot_bytes = 256, slots = 16, slice_bytes = slots * slot_bytes;
constexpr std::uint32_t receive_depth = 512;
constexpr Nanos credit_poll = 200;

struct Bench {
  Microbenchmark shape;
  std::unique_ptr<Fabric> fabric;
  std::vector<RemoteRegion> remote;  // region of each node, indexed by node
  std::vector<Region*> memory;
  std::vector<Worker*> posting;
  std::vector<std::pair<Worker*, std::unique_ptr<Receiving>>> receiving;
  Traffic reply;
  Replies replies;
  Counted posted, received, echoed;
  Nanos end = 0;
  bool is_warm = false;
  std::uint64_t turns = 0;
  Nanos waited = 0;
};

bool has_receivers(const Microbenchmark& shape) { return shape.traffic.verb == Verb::send; }
// Whether the benchmark is of SENDs from many nodes to one without echoes: its rate is that of the messages
// that arrive, and posting waits while more than `in_flight` messages are under way.
bool counts_arrivals(const Microbenchmark& shape) {
  return has_receivers(shape) && !shape.is_outbound && !shape.is_echo;
}

Target target_of(const Bench& bench, const Worker& worker, std::uint32_t slot, std::uint32_t turn) {
  const Microbenchmark& shape = bench.shape;
  const std::uint32_t others = bench.fabric->nodes() - 1;
  Target target;
  target.node = static_cast<NodeId>(shape.is_outbound ? 1 + (turn + worker.index()) % others : 0);
  target.worker = static_cast<std::uint16_t>(shape.workers + (turn + worker.index()) % shape.receivers);
  target.region = bench.remote[target.node];
  target.offset = worker.index() * std::uint64_t{slice_bytes} + slot % slots * std::uint64_t{slot_bytes};
  if (is_atomic(shape.traffic.verb)) target.offset = 0;
  return target;
}

coro::Task<void> one_turn(Bench* bench, Worker* worker, std::uint32_t slot, std::uint32_t turn) {
  const Target target = target_of(*bench, *worker, slot, turn);
  const LocalSlice local{bench->memory[worker->node()], target.offset};
  const Nanos from = worker->now();
  const WcStatus status = co_await post_turn(worker, &bench->shape.traffic, target, local, turn);
  LOCH_CHECK(status == WcStatus::success, "a request of a microbenchmark failed: {}", name(status));
  const Nanos to = worker->now();
  bench->posted.add(to, bench->shape.traffic.per_turn());
  if (to >= bench->posted.from && !std::exchange(bench->is_warm, true)) bench->fabric->reset_counters();
  if (to < bench->posted.from || to > bench->end) co_return;
  ++bench->turns;
  bench->waited += to - from;
}

coro::Task<void> post_slot(Bench* bench, Worker* worker, std::uint32_t slot) {
  for (std::uint32_t turn = slot; worker->now() < bench->end; ++turn) {
    while (counts_arrivals(bench->shape) &&
           bench->posted.in_all > bench->received.in_all + bench->shape.in_flight &&
           worker->now() < bench->end) {
      const Nanos at = worker->now() + credit_poll;
      co_await worker->spin_until(at);
    }
    co_await one_turn(bench, worker, slot, turn);
  }
}

coro::Task<void> post_all(Bench* bench, Worker* worker) {
  coro::Scope scope(worker->run_queue());
  for (std::uint32_t slot = 0; slot < bench->shape.window; ++slot)
    scope.spawn(post_slot(bench, worker, slot));
  co_await scope.join();
}

coro::Task<void> post_rounds(Bench* bench, Worker* worker) {
  for (std::uint32_t turn = 0; worker->now() < bench->end;) {
    coro::Scope scope(worker->run_queue());
    for (std::uint32_t slot = 0; slot < bench->shape.window; ++slot)
      scope.spawn(one_turn(bench, worker, slot, turn++));
    co_await scope.join();
  }
}

// A client of an echo server: keeps a window of SENDs outstanding, and sends the next one when an answer has
// arrived.
coro::Task<void> echo_all(Bench* bench, Worker* worker, const Receiving* receiving) {
  const LocalSlice local{bench->memory[worker->node()], worker->index() * std::uint64_t{slice_bytes}};
  for (std::uint32_t turn = 0; worker->now() < bench->end; ++turn) {
    if (turn >= bench->shape.window) {
      const Received got = co_await worker->receive(bench->shape.traffic.transport);
      if (got.outcome != Received::Outcome::message) co_return;
      worker->post_recv(bench->shape.traffic.transport, got.buffer, receiving->buffer_bytes(), got.user);
      bench->echoed.add(worker->now());
    }
    const Target target = target_of(*bench, *worker, 0, turn);
    const WorkRequest ball = request_of(bench->shape.traffic, *worker, target, local, turn);
    worker->post_detached(ball);
  }
}

Result<> add_node(Bench* bench, NodeId node) {
  const Microbenchmark& shape = bench->shape;
  Fabric& fabric = *bench->fabric;
  const std::uint32_t per_worker = std::min(fabric.capabilities().recv_queue_depth, receive_depth);
  const std::uint32_t most = std::max(shape.traffic.bytes, shape.reply_bytes);
  Receiving receiving{shape.traffic.transport, {}, most, per_worker};
  const std::uint64_t needed =
      posting_bytes + (has_receivers(shape) ? shape.workers + shape.receivers : 0) * receiving.region_bytes();
  const std::uint64_t bytes = std::max(needed, shape.region_bytes);
  LOCH_ASSIGN(Region * memory, fabric.register_region(node, {"memory", bytes, true, true, true, {}}));
  bench->memory.push_back(memory);
  const bool posts = (node == 0) == shape.is_outbound;
  const std::uint32_t count = posts ? shape.workers : has_receivers(shape) ? shape.receivers : 0;
  const std::uint32_t first = posts ? 0 : shape.workers;
  for (std::uint32_t w = first; w < first + count; ++w) {
    const WorkerSpec spec{node, posts ? Role::client : Role::server, static_cast<std::uint16_t>(w), -1,
                          posts ? "post" : "receive"};
    LOCH_ASSIGN(Worker * worker, fabric.add_worker(spec));
    if (posts) bench->posting.push_back(worker);
    if (posts && !shape.is_echo) continue;
    receiving.first = {memory, posting_bytes + w * receiving.region_bytes()};
    bench->receiving.emplace_back(worker, std::make_unique<Receiving>(receiving));
  }
  return {};
}

Result<> set_up(Bench* bench, const HardwareProfile& hardware) {
  const Microbenchmark& shape = bench->shape;
  SimConfig config;
  config.nodes = shape.peers + 1;
  config.hardware = hardware;
  config.doorbells = shape.doorbells;
  LOCH_ASSIGN(bench->fabric, make_sim(config));
  Fabric& fabric = *bench->fabric;
  for (std::uint32_t i = 0; i < config.nodes; ++i) LOCH_TRY(add_node(bench, static_cast<NodeId>(i)));
  LOCH_TRY(fabric.exchange(1));
  for (std::uint32_t i = 0; i < config.nodes; ++i) {
    LOCH_ASSIGN(const RemoteRegion region, fabric.lookup(static_cast<NodeId>(i), "memory"));
    bench->remote.push_back(region);
  }
  return {};
}

// Starts the coroutines of all workers. Receive buffers are posted before the run, so that posting them costs
// no simulated CPU time.
void start(Bench* bench) {
  const Microbenchmark& shape = bench->shape;
  for (const auto& [worker, buffers] : bench->receiving) {
    const Receiving* receiving = buffers.get();
    post_receives(*worker, *receiving);
    if (worker->spec().role == Role::client) {
      bench->fabric->start(*worker, echo_all(bench, worker, receiving));
      continue;
    }
    const Replies* replies = shape.is_echo ? &bench->replies : nullptr;
    bench->fabric->start(*worker, receive_all(worker, receiving, &bench->received, replies));
  }
  if (shape.is_echo) return;
  for (Worker* worker : bench->posting) {
    bench->fabric->start(*worker, shape.in_rounds ? post_rounds(bench, worker) : post_all(bench, worker));
  }
}

}  // namespace

Result<Measured> measure(const HardwareProfile& hardware, const Microbenchmark& benchmark) {
  Bench bench;
  bench.shape = benchmark;
  bench.end = benchmark.warm_up + benchmark.duration;
  bench.reply = benchmark.traffic;
  bench.reply.bytes = benchmark.reply_bytes;
  bench.posted.from = bench.received.from = bench.echoed.from = benchmark.warm_up;
  bench.posted.to = bench.received.to = bench.echoed.to = bench.end;
  LOCH_TRY(set_up(&bench, hardware));
  bench.replies = {
      .small = 0, .to_small = &bench.reply, .to_others = &bench.reply, .source = {bench.memory[0], 0}};
  start(&bench);
  LOCH_ASSIGN(const RunEnd end, bench.fabric->run());
  LOCH_CHECK(end == RunEnd::finished, "a microbenchmark did not finish");
  const Counted& counted = benchmark.is_echo            ? bench.echoed
                           : counts_arrivals(benchmark) ? bench.received
                                                        : bench.posted;
  const double done = static_cast<double>(counted.in_interval);
  Measured measured;
  measured.mops = done / (static_cast<double>(benchmark.duration) * 1e-3);
  measured.gbits_s = measured.mops * benchmark.traffic.bytes * 8e-3;
  if (bench.turns > 0)
    measured.mean_us = static_cast<double>(bench.waited) * 1e-3 / static_cast<double>(bench.turns);
  // Latency of echoes by Little's law, since each client always has its whole window outstanding.
  const double outstanding = static_cast<double>(bench.posting.size()) * benchmark.window;
  if (benchmark.is_echo && done > 0) measured.mean_us = outstanding / measured.mops;
  const FabricReport report = bench.fabric->report();
  const auto& counters = report.nodes[0].counters;
  measured.link_busy = std::max(counters.at("link_tx_busy"), counters.at("link_rx_busy"));
  measured.work_request_misses =
      counters.at("nic_work_request_misses") / std::max(counters.at("nic_requests"), 1.0);
  return measured;
}

}  // namespace loch::fabric::sim
