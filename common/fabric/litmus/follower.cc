// Node 1 of the litmus suite (tests, called races, of one-sided requests beside other memory accesses): its
// memory is the target of node 0's requests, its CPU looks at that memory, and it WRITEs what it counted to
// node 0.
#include <algorithm>

#include "common/fabric/litmus/node.h"

namespace loch::fabric::litmus {
namespace {

constexpr Nanos between_stores = 20;  // ns between the stores to two cache lines of the block
// Between two compare-and-swaps of a word the CPU waits 20 ns times a power of two, up to 40 us, each as
// likely as another: node 0's CAS succeeds only if the word has not changed for a round trip, which needs
// long waits.
constexpr std::uint64_t swap_gaps = 12;

// Indices, in the set of words that this node's CPU polls, of the words a, b, flag and stop (namespace
// layout).
enum Watched : std::uint32_t { at_a = 0, at_b = 1, at_flag = 2, at_stop = 3, watched = 4 };

class Follower final : public Node {
 public:
  explicit Follower(const Plan& plan) : Node(following, plan) {}
  [[nodiscard]] Result<> open_all(Fabric& fabric) { return open(fabric); }
  [[nodiscard]] Result<> start(Fabric& fabric) override {
    LOCH_TRY(find_memory(fabric));
    if (worker_->capabilities().receives_connected) {
      for (std::uint32_t i = 0; i < receive_buffers; ++i)
        worker_->post_recv(Transport::rc, here(layout::receives + i * line_bytes), line_bytes, i);
    }
    fabric.start(*worker_, play());
    return {};
  }

 private:
  // Whether the present litmus test (race) is over. Asked in those litmus tests in which this node does not
  // wait for node 0 after each try.
  [[nodiscard]] bool is_over() const {
    return load(layout::stop) == number_ || load(layout::command) == give_up || worker_->now() >= deadline_ ||
           worker_->stopping();
  }
  [[nodiscard]] bool is_awaited(std::uint32_t index, std::uint64_t word);
  [[nodiscard]] coro::Task<void> echo(std::uint64_t number);
  // Called in each round of a litmus test with the number of rounds that were done: tells node 0 when they
  // are as many as the tries that the test is to have.
  [[nodiscard]] coro::Task<void> count_round(std::uint64_t rounds);
  [[nodiscard]] coro::Task<void> store_blocks();
  [[nodiscard]] coro::Task<void> read_blocks();
  [[nodiscard]] coro::Task<void> swap_by_cpu();
  [[nodiscard]] coro::Task<void> swap_by_nic();
  [[nodiscard]] coro::Task<void> look_at_words();
  [[nodiscard]] coro::Task<void> look_at_long_block();
  [[nodiscard]] coro::Task<void> receive_messages();
  [[nodiscard]] coro::Task<void> take_part();
  [[nodiscard]] coro::Task<bool> await_command();
  [[nodiscard]] coro::Task<void> send_report();
  [[nodiscard]] coro::Task<void> play();

  Race race_ = Race::read_cpu;
  std::uint64_t number_ = 0;  // number of the present litmus test (race), from 1
  Nanos deadline_ = 0;
  Seen own_;
  // the largest number found in the words b or flag of this node's memory that was compared with word a
  std::uint64_t judged_ = 0;
  std::uint64_t echoed_ = 0;  // the latest number of a long WRITE that this node has acknowledged to node 0
};

coro::Task<void> Follower::echo(std::uint64_t number) {
  store(layout::source, number);
  const WorkRequest write = request(Verb::write, layout::echo, layout::source);
  const Completion done = co_await worker_->execute(write);
  if (!done.ok()) fail_with(race_, fmt::format("a WRITE of node 1 failed: {}", name(done.status)));
}

coro::Task<void> Follower::count_round(std::uint64_t rounds) {
  if (rounds == plan_.tries) co_await echo(enough(number_));
}

// Stores to the block that node 0 READs, one cache line after another, until the litmus test (race) is over.
coro::Task<void> Follower::store_blocks() {
  for (std::uint64_t n = 0; !is_over(); ++n) {
    co_await count_round(n);
    for (std::uint64_t line = 0; line < block_bytes; line += line_bytes) {
      for (std::uint64_t at = 0; at < line_bytes; at += word_bytes)
        store(layout::block + line + at, block_word(n));
      const Nanos soon = worker_->now() + between_stores;
      co_await worker_->spin_until(soon);
    }
  }
}

coro::Task<void> Follower::read_blocks() {
  std::array<std::byte, block_bytes> block;
  while (!is_over()) {
    const WorkRequest read =
        one_sided(Verb::read, own_memory_, layout::block, here(layout::own_block), block_bytes, nullptr);
    const Completion done = co_await worker_->execute(read);
    if (!done.ok()) {
      fail_with(race_, fmt::format("a READ of node 1 failed: {}", name(done.status)));
      co_return;
    }
    copy_from_shared(block.data(), region_->at(layout::own_block), block_bytes);
    count_torn(block, own_);
    co_await count_round(own_.tries);
  }
}

// Adds 1 to the upper half of the word that node 0 swaps by CAS, with the CPU's own compare-and-swap.
coro::Task<void> Follower::swap_by_cpu() {
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(region_->at(layout::cas_cpu)));
  std::uint64_t known = word.load();
  for (std::uint64_t rounds = 0; !is_over(); ++rounds) {
    co_await count_round(rounds);
    const std::uint64_t desired = known + (1ull << 32);
    if (word.compare_exchange_strong(known, desired)) {
      ++own_.tries;
      known = desired;
    }
    const Nanos soon = worker_->now() + (between_stores << worker_->rng().below(swap_gaps));
    co_await worker_->spin_until(soon);
  }
}

coro::Task<void> Follower::swap_by_nic() {
  std::uint64_t known = 0;
  for (std::uint64_t rounds = 0; !is_over(); ++rounds) {
    co_await count_round(rounds);
    const std::uint64_t expected = known, desired = known + (1ull << 32);
    const Completion done = co_await worker_->cas(own_memory_, layout::cas_nic, expected, desired);
    if (!done.ok()) {
      fail_with(race_, fmt::format("a CAS of node 1 failed: {}", name(done.status)));
      co_return;
    }
    if (done.result == expected) ++own_.tries;
    known = done.result == expected ? desired : done.result;
  }
}

// Called by the polling loop directly after the load that found `word` in one of the polled words: compares
// word a of this node's memory with it at once, so that no time passes between the two loads.
bool Follower::is_awaited(std::uint32_t index, std::uint64_t word) {
  if (index == at_stop) return word == number_;
  const bool is_judge = index == (race_ == Race::write_write ? at_b : at_flag);
  if (!is_judge || word <= judged_) return false;
  judged_ = word;
  ++own_.tries;
  if (load(layout::a) < word) ++own_.seen;
  return true;
}

coro::Task<void> Follower::look_at_words() {
  const WatchSet set{
      .region = region_,
      .offset = layout::a,
      .stride = line_bytes,
      .count = watched,
      .ready = [](void* self, std::uint32_t index,
                  std::uint64_t word) { return static_cast<Follower*>(self)->is_awaited(index, word); },
      .context = this};
  while (fault_.empty()) {
    const WatchAny found = co_await worker_->watch_any(set, 0, deadline_);
    if (found.outcome != WatchOutcome::ready || found.index == at_stop) co_return;
    co_await echo(judged_);
  }
}

coro::Task<void> Follower::look_at_long_block() {
  const WatchSet set{.region = region_,
                     .offset = layout::long_block,
                     .stride = static_cast<std::uint32_t>(layout::stop - layout::long_block),
                     .count = 2,
                     .ready =
                         [](void* self, std::uint32_t index, std::uint64_t word) {
                           const Follower& of = *static_cast<Follower*>(self);
                           return index == 0 ? word > of.echoed_ : word == of.number_;
                         },
                     .context = this};
  while (fault_.empty()) {
    const WatchAny found = co_await worker_->watch_any(set, 0, deadline_);
    if (found.outcome != WatchOutcome::ready || found.index != 0) co_return;
    echoed_ = load(layout::long_block);
    co_await echo(echoed_);
  }
}

coro::Task<void> Follower::receive_messages() {
  while (fault_.empty()) {
    const Received got = co_await worker_->receive(Transport::rc, deadline_);
    if (got.outcome != Received::Outcome::message) {
      fail_with(race_, "node 1 receives nothing");
      co_return;
    }
    const std::uint64_t visible = load(layout::a);
    const std::uint64_t number = load(got.buffer.offset);
    worker_->post_recv(Transport::rc, got.buffer, line_bytes, got.user);
    if (number == last_message) co_return;
    ++own_.tries;
    if (visible < number) ++own_.seen;
    co_await echo(number);
  }
}

coro::Task<void> Follower::take_part() {
  switch (race_) {
    case Race::read_cpu:
      co_await store_blocks();
      break;
    case Race::read_write:
      co_await read_blocks();
      break;
    case Race::cas_cpu:
      co_await swap_by_cpu();
      break;
    case Race::cas_nic:
      co_await swap_by_nic();
      break;
    case Race::write_send:
      co_await receive_messages();
      break;
    case Race::early:
      co_await look_at_long_block();
      break;
    case Race::write_write:
    case Race::at_completion:
    case Race::late:
      co_await look_at_words();
      break;
    case Race::write_read:
    case Race::write_atomic:
      break;  // nothing to do on this node: node 0 counts the outcomes of this litmus test itself
  }
}

coro::Task<bool> Follower::await_command() {
  const std::uint64_t before = load(layout::command);
  if (before != number_) {
    const WatchWord word{.region = region_, .offset = layout::command, .value = before, .until_equal = false};
    const Nanos deadline = worker_->now() + plan_.time + 2 * plan_.patience;
    const WatchOutcome outcome = co_await worker_->watch(word, deadline);
    static_cast<void>(outcome);  // the outcome is not needed: the command word is loaded again below
  }
  if (load(layout::command) == number_) co_return true;
  co_return fail_with(race_, "node 0 gives no command");
}

coro::Task<void> Follower::send_report() {
  Report report;
  report.counts[0] = own_.tries;
  report.counts[1] = own_.seen;
  std::ranges::copy(own_.torn, report.counts.begin() + 2);
  report.sum = report.expected_sum(number_);
  copy_to_shared(region_->at(layout::report), &report, sizeof report);
  const WorkRequest write = request(Verb::write, layout::report, layout::report, sizeof report);
  const Completion done = co_await worker_->execute(write);
  if (!done.ok()) fail_with(race_, fmt::format("a WRITE of node 1 failed: {}", name(done.status)));
}

coro::Task<void> Follower::play() {
  for (std::size_t index = 0; index < plan_.races.size() && fault_.empty(); ++index) {
    race_ = plan_.races[index];
    if (!can_run(race_)) continue;
    number_ = index + 1;
    const bool has_begun = co_await await_command();
    if (!has_begun) co_return;
    deadline_ = worker_->now() + plan_.time + plan_.patience;
    own_ = {};
    co_await take_part();
    if (fault_.empty()) co_await send_report();
  }
}

}  // namespace

Result<std::unique_ptr<Player>> make_follower(Fabric& fabric, const Plan& plan) {
  auto follower = std::make_unique<Follower>(plan);
  LOCH_TRY(follower->open_all(fabric));
  return follower;
}

Result<std::unique_ptr<Player>> Player::make(Fabric& fabric, NodeId node, const Plan& plan) {
  return node == leading ? make_leader(fabric, plan) : make_follower(fabric, plan);
}

}  // namespace loch::fabric::litmus
