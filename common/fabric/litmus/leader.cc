// Node 0 of the litmus suite (tests, called races, of one-sided requests beside other memory accesses):
// begins and ends each race, posts its requests, and counts the outcomes that the requester can see.
#include <algorithm>

#include "common/fabric/litmus/node.h"

namespace loch::fabric::litmus {
namespace {

class Leader final : public Node {
 public:
  explicit Leader(const Plan& plan) : Node(leading, plan) {}
  [[nodiscard]] Result<> open_all(Fabric& fabric) {
    LOCH_TRY(open(fabric));
    LOCH_ASSIGN(witness_, add_worker(fabric, 1, "witness"));
    return {};
  }
  [[nodiscard]] Result<> start(Fabric& fabric) override {
    LOCH_TRY(find_memory(fabric));
    fabric.start(*worker_, play());
    fabric.start(*witness_, bear_witness());
    return {};
  }

 private:
  [[nodiscard]] bool goes_on(std::uint64_t tries) const {
    return tries < plan_.tries && worker_->now() < until_;
  }
  // Whether a litmus test (race) goes on in which the nodes do not wait for each other after each try: until
  // both have done all their tries, or the time is over.
  [[nodiscard]] bool goes_on_with_other(std::uint64_t tries) const {
    const bool is_enough = tries >= plan_.tries && load(layout::echo) == enough(race_number_);
    return !is_enough && worker_->now() < until_;
  }
  [[nodiscard]] coro::Task<bool> tell(std::uint64_t where, std::uint64_t value);
  [[nodiscard]] coro::Task<bool> await_echo(std::uint64_t number);
  [[nodiscard]] coro::Task<bool> await_report(std::uint64_t number, Seen* seen);
  [[nodiscard]] coro::Task<bool> take_part(Race race, Seen* seen);
  [[nodiscard]] coro::Task<bool> read_blocks(Seen* seen);
  [[nodiscard]] coro::Task<bool> write_blocks();
  [[nodiscard]] coro::Task<bool> write_and_more(Race race, Seen* seen);
  [[nodiscard]] coro::Task<bool> write_in_front_of_sends();
  [[nodiscard]] coro::Task<bool> swap(std::uint64_t word);
  [[nodiscard]] coro::Task<bool> count_lost_swaps(std::uint64_t word, Seen* seen);
  [[nodiscard]] coro::Task<bool> write_long(Seen* seen);
  [[nodiscard]] coro::Task<bool> write_and_bear_witness(bool has_read_behind);
  [[nodiscard]] coro::Task<bool> run_race(std::size_t index);
  [[nodiscard]] coro::Task<void> play();
  [[nodiscard]] coro::Task<void> bear_witness();

  Worker* witness_ = nullptr;  // second worker of this node, with queue pairs of its own
  Race race_ = Race::read_cpu;
  std::uint64_t race_number_ = 0;
  Nanos until_ = 0;
  // the number that this node's latest WRITE of a litmus test wrote; no number is written twice
  std::uint64_t number_ = 0;
  std::uint64_t swapped_ = 0;
};

coro::Task<bool> Leader::tell(std::uint64_t where, std::uint64_t value) {
  store(layout::told, value);
  const WorkRequest write = request(Verb::write, where, layout::told);
  const Completion done = co_await worker_->execute(write);
  if (done.ok()) co_return true;
  co_return fail_with(race_, fmt::format("a WRITE failed: {}", name(done.status)));
}

coro::Task<bool> Leader::await_echo(std::uint64_t number) {
  const WatchWord echo{.region = region_, .offset = layout::echo, .value = number};
  const Nanos deadline = worker_->now() + plan_.patience;
  const WatchOutcome outcome = co_await worker_->watch(echo, deadline);
  if (outcome == WatchOutcome::ready) co_return true;
  co_return fail_with(race_, "node 1 gives no answer");
}

coro::Task<bool> Leader::await_report(std::uint64_t number, Seen* seen) {
  const Nanos deadline = worker_->now() + plan_.patience;
  Report report;
  for (;;) {
    copy_from_shared(&report, region_->at(layout::report), sizeof report);
    if (report.sum == report.expected_sum(number)) break;
    if (worker_->now() >= deadline || worker_->stopping())
      co_return fail_with(race_, "node 1 gives no report");
    const Nanos soon = worker_->now() + 2'000;
    co_await worker_->spin_until(soon);
  }
  seen->tries += report.counts[0];
  seen->seen += report.counts[1];
  for (std::size_t i = 0; i < units.size(); ++i) seen->torn[i] += report.counts[2 + i];
  co_return true;
}

coro::Task<bool> Leader::read_blocks(Seen* seen) {
  std::array<std::byte, block_bytes> block;
  while (goes_on_with_other(seen->tries)) {
    const WorkRequest read = request(Verb::read, layout::block, layout::own_block, block_bytes);
    const Completion done = co_await worker_->execute(read);
    if (!done.ok()) co_return fail_with(race_, fmt::format("a READ failed: {}", name(done.status)));
    copy_from_shared(block.data(), region_->at(layout::own_block), block_bytes);
    count_torn(block, *seen);
  }
  co_return true;
}

coro::Task<bool> Leader::write_blocks() {
  for (std::uint64_t n = 0; goes_on_with_other(n); ++n) {
    for (std::uint64_t at = 0; at < block_bytes; at += word_bytes)
      store(layout::own_block + at, block_word(n));
    const WorkRequest write = request(Verb::write, layout::block, layout::own_block, block_bytes);
    const Completion done = co_await worker_->execute(write);
    if (!done.ok()) co_return fail_with(race_, fmt::format("a WRITE failed: {}", name(done.status)));
  }
  co_return true;
}

// Each try posts a WRITE to word A and, behind it on the same queue pair, a WRITE to B, a READ of A or an FAA
// on A.
coro::Task<bool> Leader::write_and_more(Race race, Seen* seen) {
  for (std::uint64_t tries = 0; goes_on(tries); ++tries) {
    store(layout::source, ++number_);
    store(layout::landing, 0);
    std::array<WorkRequest, 2> chain{request(Verb::write, layout::a, layout::source),
                                     request(Verb::read, layout::a, layout::landing)};
    if (race == Race::write_write) chain[1] = request(Verb::write, layout::b, layout::source);
    if (race == Race::write_atomic) {
      chain[1] = request(Verb::faa, layout::a, layout::landing);
      chain[1].local = {};
    }
    chain[0].is_signaled = false;
    const WcStatus status = co_await worker_->post_and_wait(chain);
    if (status != WcStatus::success)
      co_return fail_with(race_, fmt::format("a chain of requests failed: {}", name(status)));
    if (race == Race::write_write) {
      const bool is_answered = co_await await_echo(number_);
      if (!is_answered) co_return false;
      continue;  // node 1's CPU counts the outcomes of this race
    }
    const std::uint64_t old = race == Race::write_atomic ? chain[1].result : load(layout::landing);
    ++seen->tries;
    if (old != number_) ++seen->seen;
  }
  co_return true;
}

coro::Task<bool> Leader::write_in_front_of_sends() {
  bool is_last = false;
  for (std::uint64_t tries = 0; !is_last; ++tries) {
    is_last = !goes_on(tries);
    store(layout::source, is_last ? last_message : ++number_);
    std::array<WorkRequest, 2> chain{
        request(Verb::write, is_last ? layout::spare : layout::a, layout::source),
        request(Verb::send, 0, layout::source)};
    chain[0].is_signaled = false;
    const WcStatus status = co_await worker_->post_and_wait(chain);
    if (status != WcStatus::success)
      co_return fail_with(race_, fmt::format("a chain of requests failed: {}", name(status)));
    if (is_last) break;
    const bool is_answered = co_await await_echo(number_);
    if (!is_answered) co_return false;
  }
  co_return true;
}

// Adds 1 by CAS to the lower half of the word to whose upper half node 1 adds.
coro::Task<bool> Leader::swap(std::uint64_t word) {
  std::uint64_t known = 0;
  swapped_ = 0;
  for (std::uint64_t tries = 0; goes_on_with_other(tries); ++tries) {
    const std::uint64_t expected = known;
    const Completion done = co_await worker_->cas(peer_memory_, word, expected, expected + 1);
    if (!done.ok()) co_return fail_with(race_, fmt::format("a CAS failed: {}", name(done.status)));
    if (done.result == expected) ++swapped_;
    known = done.result == expected ? expected + 1 : done.result;
  }
  co_return true;
}

// Counts swaps that were lost. The lower half of the word counts the swaps of this node that took effect, the
// upper half those of node 1; swapped_ and `seen->tries` count those that succeeded as this node and node 1
// saw it.
coro::Task<bool> Leader::count_lost_swaps(std::uint64_t word, Seen* seen) {
  const Completion last = co_await worker_->faa(peer_memory_, word, 0);
  if (!last.ok()) co_return fail_with(race_, fmt::format("an FAA failed: {}", name(last.status)));
  const auto lost = [](std::uint64_t succeeded, std::uint64_t found) {
    return succeeded > found ? succeeded - found : found - succeeded;
  };
  seen->seen = lost(swapped_, last.result & 0xffffffff) + lost(seen->tries, last.result >> 32);
  seen->tries += swapped_;
  co_return true;
}

coro::Task<bool> Leader::write_long(Seen* seen) {
  while (goes_on(seen->tries)) {
    store(layout::own_long, ++number_);
    const WorkRequest write = request(Verb::write, layout::long_block, layout::own_long, long_bytes);
    const Completion done = co_await worker_->execute(write);
    if (!done.ok()) co_return fail_with(race_, fmt::format("a WRITE failed: {}", name(done.status)));
    ++seen->tries;
    if (load(layout::echo) == number_) ++seen->seen;
    const bool is_answered = co_await await_echo(number_);
    if (!is_answered) co_return false;
  }
  co_return true;
}

// After a WRITE has completed, this node's second worker tells node 1 over another queue pair to look at the
// written word.
coro::Task<bool> Leader::write_and_bear_witness(bool has_read_behind) {
  for (std::uint64_t tries = 0; goes_on(tries); ++tries) {
    store(layout::source, ++number_);
    const WorkRequest write = request(Verb::write, layout::a, layout::source);
    const Completion done = co_await worker_->execute(write);
    if (!done.ok()) co_return fail_with(race_, fmt::format("a WRITE failed: {}", name(done.status)));
    if (has_read_behind) {
      const WorkRequest read = request(Verb::read, layout::spare, layout::landing);
      const Completion behind = co_await worker_->execute(read);
      if (!behind.ok()) co_return fail_with(race_, fmt::format("a READ failed: {}", name(behind.status)));
    }
    worker_->store_word(*region_, layout::completed, number_);
    const bool is_answered = co_await await_echo(number_);
    if (!is_answered) co_return false;
  }
  co_return true;
}

coro::Task<void> Leader::bear_witness() {
  std::uint64_t known = 0;
  const auto races = static_cast<Nanos>(plan_.races.size());
  const Nanos deadline = witness_->now() + plan_.patience + races * (plan_.time + 3 * plan_.patience);
  for (;;) {
    const WatchWord word{
        .region = region_, .offset = layout::completed, .value = known, .until_equal = false};
    const WatchOutcome outcome = co_await witness_->watch(word, deadline);
    known = load(layout::completed);
    if (outcome != WatchOutcome::ready || known == nothing_more) co_return;
    store(layout::witnessed, known);
    const WorkRequest write = request(Verb::write, layout::flag, layout::witnessed);
    const Completion done = co_await witness_->execute(write);
    // the test then fails: node 0's other worker waits for an answer of node 1 that never comes, and times
    // out
    if (!done.ok()) co_return;
  }
}

coro::Task<bool> Leader::take_part(Race race, Seen* seen) {
  bool is_well = false;
  switch (race) {
    case Race::read_cpu:
      is_well = co_await read_blocks(seen);
      break;
    case Race::read_write:
      is_well = co_await write_blocks();
      break;
    case Race::write_write:
    case Race::write_read:
    case Race::write_atomic:
      is_well = co_await write_and_more(race, seen);
      break;
    case Race::write_send:
      is_well = co_await write_in_front_of_sends();
      break;
    case Race::cas_cpu:
      is_well = co_await swap(layout::cas_cpu);
      break;
    case Race::cas_nic:
      is_well = co_await swap(layout::cas_nic);
      break;
    case Race::early:
      is_well = co_await write_long(seen);
      break;
    case Race::at_completion:
      is_well = co_await write_and_bear_witness(false);
      break;
    case Race::late:
      is_well = co_await write_and_bear_witness(true);
      break;
  }
  co_return is_well;
}

coro::Task<bool> Leader::run_race(std::size_t index) {
  race_ = plan_.races[index];
  const std::uint64_t number = index + 1;
  race_number_ = number;
  const bool has_begun = co_await tell(layout::command, number);
  if (!has_begun) co_return false;
  until_ = worker_->now() + plan_.time;
  const bool is_well = co_await take_part(race_, &seen_[index]);
  if (!is_well) co_return false;
  const bool has_ended = co_await tell(layout::stop, number);
  if (!has_ended) co_return false;
  const bool has_report = co_await await_report(number, &seen_[index]);
  if (!has_report) co_return false;
  if (race_ != Race::cas_cpu && race_ != Race::cas_nic) co_return true;
  const std::uint64_t word = race_ == Race::cas_cpu ? layout::cas_cpu : layout::cas_nic;
  const bool is_counted = co_await count_lost_swaps(word, &seen_[index]);
  co_return is_counted;
}

coro::Task<void> Leader::play() {
  for (std::size_t index = 0; index < plan_.races.size() && fault_.empty(); ++index) {
    if (!can_run(plan_.races[index])) continue;
    const bool is_well = co_await run_race(index);
    if (is_well) continue;
    const bool is_told = co_await tell(layout::command, give_up);
    // the result is ignored: if node 1 cannot be told, it gives up after its own time limit
    static_cast<void>(is_told);
  }
  worker_->store_word(*region_, layout::completed, nothing_more);
}

}  // namespace

Result<std::unique_ptr<Player>> make_leader(Fabric& fabric, const Plan& plan) {
  auto leader = std::make_unique<Leader>(plan);
  LOCH_TRY(leader->open_all(fabric));
  return leader;
}

}  // namespace loch::fabric::litmus
