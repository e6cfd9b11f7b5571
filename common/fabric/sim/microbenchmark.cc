#include "common/fabric/sim/microbenchmark.h"

#include <array>
#include <memory>
#include <vector>

#include "common/fabric/sim/sim.h"

namespace loch::fabric::sim {
namespace {

constexpr Nanos warm_up = 100'000;
constexpr std::uint64_t region_bytes = 1 << 20;
constexpr std::uint32_t most_chain = 32;
constexpr std::uint32_t receive_bytes = 256;

struct Bench {
  Microbenchmark shape;
  std::unique_ptr<Fabric> fabric;
  std::vector<RemoteRegion> remote;       // by node
  std::vector<Region*> memory;
  Nanos end = 0;
  std::uint64_t done = 0, received = 0;   // after the warm-up
  std::uint64_t chains = 0;
  Nanos waited = 0;
};

bool is_atomic(Verb verb) { return verb == Verb::cas || verb == Verb::faa; }

WorkRequest request_of(Bench* bench, Worker& worker, std::uint32_t slot, std::uint32_t turn) {
  const Microbenchmark& shape = bench->shape;
  WorkRequest wr;
  wr.verb = shape.verb;
  wr.transport = shape.transport;
  wr.is_inline = shape.is_inline;
  wr.length = shape.bytes;
  const std::uint32_t nodes = bench->fabric->nodes();
  wr.peer = static_cast<NodeId>(shape.is_outbound ? 1 + (turn + worker.index()) % (nodes - 1) : 0);
  wr.peer_worker = static_cast<std::uint16_t>(shape.workers + turn % shape.workers);
  wr.remote = bench->remote[wr.peer];
  const std::uint64_t place = std::uint64_t{worker.index()} * 4096 + std::uint64_t{slot % 16} * 256;
  wr.local = {bench->memory[worker.node()], place};
  wr.remote_offset = place;
  if (is_atomic(shape.verb)) {
    wr.length = 8;
    wr.local = {};
    wr.operand = 1;
    wr.remote_offset = shape.words > 1 ? worker.rng().below(shape.words) * 8 : 0;
  }
  return wr;
}

coro::Task<void> post_window(Bench* bench, Worker* worker, std::uint32_t slot) {
  std::array<WorkRequest, most_chain> chain;
  const std::span<WorkRequest> used(chain.data(), bench->shape.chain);
  for (std::uint32_t turn = slot; worker->now() < bench->end; ++turn) {
    for (WorkRequest& wr : used) {
      wr = request_of(bench, *worker, slot, turn);
      wr.is_signaled = &wr == &used.back();
    }
    const Nanos from = worker->now();
    const WcStatus status = co_await worker->post_and_wait(used);
    LOCH_CHECK(status == WcStatus::success, "a request of a microbenchmark failed: {}", name(status));
    const Nanos to = worker->now();
    if (to < warm_up || to > bench->end) continue;
    bench->done += used.size();
    ++bench->chains;
    bench->waited += to - from;
  }
}

coro::Task<void> post_all(Bench* bench, Worker* worker) {
  coro::Scope scope(worker->run_queue());
  for (std::uint32_t slot = 0; slot < bench->shape.window; ++slot) scope.spawn(post_window(bench, worker, slot));
  co_await scope.join();
}

coro::Task<void> receive_all(Bench* bench, Worker* worker) {
  for (;;) {
    const Received got = co_await worker->receive(bench->shape.transport);
    if (got.outcome == Received::Outcome::stopping) co_return;
    if (worker->now() >= warm_up && worker->now() <= bench->end) ++bench->received;
    worker->post_recv(bench->shape.transport, got.buffer, receive_bytes, 0);
  }
}

Result<> set_up(Bench* bench, const HardwareProfile& hardware) {
  const Microbenchmark& shape = bench->shape;
  SimConfig config;
  config.nodes = shape.peers + 1;
  config.hardware = hardware;
  LOCH_ASSIGN(bench->fabric, make_sim(config));
  Fabric& fabric = *bench->fabric;
  std::vector<Worker*> posting, receiving;
  for (std::uint32_t i = 0; i < config.nodes; ++i) {
    const auto node = static_cast<NodeId>(i);
    const bool is_measured = i == 0;
    LOCH_ASSIGN(Region * memory, fabric.register_region(node, {"memory", region_bytes, true, true, true, {}}));
    bench->memory.push_back(memory);
    for (std::uint32_t w = 0; w < shape.workers; ++w) {
      if (is_measured == shape.is_outbound) {
        LOCH_ASSIGN(Worker * worker, fabric.add_worker({node, Role::client, static_cast<std::uint16_t>(w), -1, "post"}));
        posting.push_back(worker);
      } else if (shape.verb == Verb::send) {
        LOCH_ASSIGN(Worker * worker, fabric.add_worker({node, Role::server,
                                                        static_cast<std::uint16_t>(shape.workers + w), -1, "receive"}));
        receiving.push_back(worker);
      }
    }
  }
  LOCH_TRY(fabric.exchange(1));
  for (std::uint32_t i = 0; i < config.nodes; ++i) {
    LOCH_ASSIGN(const RemoteRegion region, fabric.lookup(static_cast<NodeId>(i), "memory"));
    bench->remote.push_back(region);
  }
  for (Worker* worker : receiving) {
    for (std::uint32_t i = 0; i < hardware.nic.recv_queue_depth; ++i) {
      worker->post_recv(shape.transport, {bench->memory[worker->node()], std::uint64_t{worker->index()} * 4096}, receive_bytes, 0);
    }
    fabric.start(*worker, receive_all(bench, worker));
  }
  for (Worker* worker : posting) fabric.start(*worker, post_all(bench, worker));
  return {};
}

}  // namespace

Result<Measured> measure(const HardwareProfile& hardware, const Microbenchmark& benchmark) {
  LOCH_CHECK(benchmark.chain <= most_chain, "a chain of {}", benchmark.chain);
  Bench bench;
  bench.shape = benchmark;
  bench.end = warm_up + benchmark.duration;
  LOCH_TRY(set_up(&bench, hardware));
  LOCH_ASSIGN(const RunEnd end, bench.fabric->run());
  LOCH_CHECK(end == RunEnd::finished, "a microbenchmark did not finish");
  Measured measured;
  // Of unreliable SENDs to one node, what arrives is what counts.
  const bool counts_received = benchmark.verb == Verb::send && !benchmark.is_outbound;
  const auto done = static_cast<double>(counts_received ? bench.received : bench.done);
  const double span_us = static_cast<double>(benchmark.duration) * 1e-3;
  measured.mops = done / span_us;
  measured.gbits_s = measured.mops * benchmark.bytes * 8e-3;
  if (bench.chains > 0) measured.mean_us = static_cast<double>(bench.waited) * 1e-3 / static_cast<double>(bench.chains);
  return measured;
}

}  // namespace loch::fabric::sim
