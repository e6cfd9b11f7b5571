// One of three ranks on verbs, for tests/cluster/test_softroce_rejoin.py and tests/zoo: the process of node 1
// is killed during its requests and started again. The other ranks get errors, reconnect, look up node 1's
// regions again, and check every kind of request in both directions. Prints each step with its time; exit
// status 0: this rank's checks passed.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "common/base/check.h"
#include "common/cluster/rank.h"
#include "common/fabric/memory.h"
#include "common/fabric/verbs/verbs.h"

namespace loch::fabric {
namespace {

constexpr Nanos second = 1'000'000'000;
Nanos patience = 120 * second;  // the limit of each wait, from LOCH_REJOIN_PATIENCE if that is set
constexpr NodeId victim = 1;
constexpr std::uint64_t requests_before = 40;
// Offsets in each node's memory: words that others change, a buffer for data that READs fetch, and receive
// buffers.
constexpr std::uint64_t at_count = 0, at_swapped = 8, at_flag = 64, at_written = 128, at_landing = 512,
                        at_buffers = 4096, buffer_bytes = 4096;
constexpr std::uint32_t buffers = 4;

struct Rank {
  Fabric* fabric = nullptr;
  cluster::Control* control = nullptr;
  Worker* worker = nullptr;
  Region* memory = nullptr;
  NodeId self = 0;

  [[nodiscard]] LocalSlice at(std::uint64_t offset) const { return {memory, offset}; }
  [[nodiscard]] RemoteRegion of(NodeId node) const { return fabric->lookup(node, "memory").value(); }
  void set(std::uint64_t offset, std::uint64_t value) const { store_word_release(memory->at(offset), value); }
  void say(const std::string& text) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    // Not on standard output, for which mpirun makes a terminal: its poll() of one that was written to may
    // wait for seconds on a busy machine.
    fmt::print(stderr, "{:.3f} node {} incarnation {}: {}\n", std::chrono::duration<double>(now).count(),
               self, control->incarnation(self), text);
  }
};

void post_receives(const Rank& rank) {
  std::uint64_t offset = at_buffers;
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    for (std::uint32_t i = 0; i < buffers; ++i, offset += buffer_bytes)
      rank.worker->post_recv(transport, rank.at(offset), buffer_bytes, i);
  }
}

// Checks FAA, WRITE, READ and CAS on a node's memory.
coro::Task<void> use_memory(const Rank* rank, NodeId node) {
  Worker& worker = *rank->worker;
  const RemoteRegion memory = rank->of(node);
  const std::uint64_t mark = 1000 + rank->self, own = at_written + 8u * rank->self;
  const Completion added = co_await worker.faa(memory, at_count, 1);
  LOCH_CHECK(added.ok(), "FAA: {}", name(added.status));
  rank->set(at_landing, mark);
  const Completion written = co_await worker.write(memory, own, rank->at(at_landing), 8);
  LOCH_CHECK(written.ok(), "WRITE: {}", name(written.status));
  const Completion read = co_await worker.read(memory, own, rank->at(at_landing + 8), 8);
  LOCH_CHECK(read.ok(), "READ: {}", name(read.status));
  LOCH_CHECK_EQ(load_word(rank->memory->at(at_landing + 8)), mark);
  const std::uint64_t word = at_swapped + 8u * rank->self;
  const Completion swapped = co_await worker.cas(memory, word, 0, mark);
  LOCH_CHECK(swapped.ok() && swapped.result == 0, "CAS: {}, {}", name(swapped.status), swapped.result);
}

coro::Task<void> send_each_way(const Rank* rank, NodeId node) {
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    WorkRequest request;
    request.verb = Verb::send;
    request.transport = transport;
    request.peer = node;
    request.local = rank->at(at_landing);
    request.length = 8;
    const Completion sent = co_await rank->worker->execute(request);
    LOCH_CHECK(sent.ok(), "SEND on {}: {}", name(transport), name(sent.status));
  }
}

// Receives `count` messages on each transport, each from a different sender.
coro::Task<void> receive_each_way(const Rank* rank, std::uint32_t count) {
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    std::uint32_t from = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Received got = co_await rank->worker->receive(transport, rank->worker->now() + patience);
      LOCH_CHECK(got.outcome == Received::Outcome::message, "node {}: {} of {} messages came on {} within {}",
                 rank->self, i, count, name(transport), format_duration(patience));
      const std::uint64_t head = transport == Transport::ud ? 40 : 0;
      LOCH_CHECK_EQ(load_word(rank->memory->at(got.buffer.offset + head)), 1000U + got.from);
      from |= 1U << got.from;
    }
    LOCH_CHECK_EQ(std::popcount(from), static_cast<int>(count));
  }
}

coro::Task<void> await_word(const Rank* rank, std::uint64_t offset, std::uint64_t value) {
  const WatchWord word{.region = rank->memory, .offset = offset, .value = value};
  const WatchOutcome outcome = co_await rank->worker->watch(word, rank->worker->now() + patience);
  LOCH_CHECK(outcome == WatchOutcome::ready, "node {}: the word at {} is {} and not {} after {}", rank->self,
             offset, load_word(rank->memory->at(offset)), value, format_duration(patience));
}

// The first process of node 1: sends requests to both other nodes until it is killed.
coro::Task<void> die(const Rank* rank) {
  for (std::uint64_t i = 0; i < requests_before; ++i) {
    for (const NodeId node : {NodeId{0}, NodeId{2}}) {
      const RemoteRegion memory = rank->of(node);
      const Completion added = co_await rank->worker->faa(memory, at_count, 1);
      LOCH_CHECK(added.ok(), "FAA: {}", name(added.status));
    }
  }
  // Both other ranks have added 1 twice to this counter, so each has the completion of its first FAA.
  co_await await_word(rank, at_count, 4);
  rank->say("is killed");
  kill(getpid(), SIGKILL);
}

// The second process of node 1, started after the first was killed.
coro::Task<void> live_again(const Rank* rank) {
  post_receives(*rank);
  rank->set(at_landing, 1);
  for (const NodeId node : {NodeId{0}, NodeId{2}}) {
    const RemoteRegion memory = rank->of(node);
    const Completion told = co_await rank->worker->write(memory, at_flag, rank->at(at_landing), 8);
    LOCH_CHECK(told.ok(), "WRITE: {}", name(told.status));
  }
  rank->say("has told the others that it receives");
  for (const NodeId node : {NodeId{0}, NodeId{2}}) {
    co_await use_memory(rank, node);
    co_await send_each_way(rank, node);
  }
  co_await receive_each_way(rank, 2);
  co_await await_word(rank, at_count, 2);
  rank->say("served and was served");
}

coro::Task<void> reconnect(const Rank* rank) {
  const bool is_back = co_await rank->worker->reconnect(victim, rank->worker->now() + patience);
  LOCH_CHECK(is_back && rank->worker->connected(victim), "node {}: no reconnection within {}", rank->self,
             format_duration(patience));
}

coro::Task<void> outlive(const Rank* rank) {
  Worker& worker = *rank->worker;
  post_receives(*rank);
  const RemoteRegion before = rank->of(victim);
  const std::uint32_t epoch = worker.epoch(victim);
  const Completion met = co_await worker.faa(before, at_count, 1);
  LOCH_CHECK(met.ok(), "FAA: {}", name(met.status));
  // The victim may be killed after it has executed this FAA and before its reply leaves.
  WcStatus status = (co_await worker.faa(before, at_count, 1)).status;
  std::uint64_t reads = 0;
  for (const Nanos limit = worker.now() + patience; status == WcStatus::success;) {
    LOCH_CHECK(worker.now() < limit, "node {} was not killed within {}", victim, format_duration(patience));
    const Completion read = co_await worker.read(before, at_written, rank->at(at_landing), 64);
    status = read.status;
    reads += read.ok() ? 1 : 0;
  }
  rank->say(fmt::format("READ ended in {}, {} went well", name(status), reads));
  LOCH_CHECK(!worker.connected(victim) && !worker.is_connected_since(victim, epoch));
  const Completion refused = co_await worker.read(before, at_written, rank->at(at_landing), 64);
  LOCH_CHECK(!refused.ok(), "a READ went through without a reconnection");

  co_await reconnect(rank);
  LOCH_CHECK(worker.epoch(victim) > epoch && !worker.is_connected_since(victim, epoch));
  const RemoteRegion after = rank->of(victim);
  rank->say(fmt::format("connected anew, epoch {} to {}, rkey {:#x} to {:#x}", epoch, worker.epoch(victim),
                        before.rkey, after.rkey));
  LOCH_CHECK(after.rkey != before.rkey);
  const Completion old = co_await worker.read(before, at_written, rank->at(at_landing), 8);
  LOCH_CHECK(old.status == WcStatus::remote_access, "the old rkey: {}", name(old.status));
  rank->say("the old rkey is refused");
  co_await reconnect(rank);

  co_await await_word(rank, at_flag, 1);
  co_await use_memory(rank, victim);
  co_await send_each_way(rank, victim);
  co_await receive_each_way(rank, 1);
  rank->say("served and was served");
}

int fail_with(const Rank& rank, const Error& error) {
  rank.say(error.message);
  return 1;
}

int work(cluster::Control& control) {
  Rank rank;
  rank.control = &control;
  rank.self = static_cast<NodeId>(control.rank());
  const char* device = std::getenv("LOCH_TEST_DEVICE");
  auto made = verbs::make_verbs(
      {.nodes = control.ranks(), .seed = 1, .control = &control, .device = device == nullptr ? "" : device});
  if (!made) return fail_with(rank, made.error());
  rank.fabric = made->get();
  rank.memory = rank.fabric->register_region(rank.self, {"memory", 65536, true, true, true, {}}).value();
  rank.worker = rank.fabric->add_worker({rank.self, Role::client, 0, -1, "client"}).value();
  if (auto ok = rank.fabric->exchange(patience); !ok) return fail_with(rank, ok.error());
  rank.say("exchanged");
  if (rank.self != victim) {
    rank.fabric->start(*rank.worker, outlive(&rank));
  } else {
    rank.fabric->start(*rank.worker, control.incarnation(victim) == 0 ? die(&rank) : live_again(&rank));
  }
  const auto end = rank.fabric->run();
  if (!end) return fail_with(rank, end.error());
  LOCH_CHECK(*end == RunEnd::finished);
  if (rank.self == victim) return 0;
  // The restarted process takes no part in this collective call.
  const auto texts = rank.fabric->gather(fmt::format("{}", load_word(rank.memory->at(at_count))), patience);
  if (!texts) return fail_with(rank, texts.error());
  if (rank.self != 0) return 0;
  const std::string expected = std::to_string(requests_before + 1);
  LOCH_CHECK(texts->at(0) == expected && texts->at(1).empty() && texts->at(2) == expected);
  rank.say("all is well");
  return 0;
}

}  // namespace
}  // namespace loch::fabric

int main() {
  using namespace loch;
  const auto env = cluster::launch_env();
  auto config = cluster::rank_config();
  if (const char* text = std::getenv("LOCH_REJOIN_PATIENCE"); text != nullptr)
    fabric::patience = parse_duration(text, "LOCH_REJOIN_PATIENCE").value();
  if (!env || !config) {
    fmt::print(stderr, "{}\n", env ? config.error().message : env.error().message);
    return 2;
  }
  if (env->rank == fabric::victim) config->restarts = 1;
  return cluster::run_as_rank(*env, *config, fabric::work);
}
