// The ping-pong of WRITEs by which the processes of a run compare their clocks.
#include "workloads/clock_exchange.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/fabric/memory.h"

namespace loch::workloads {
namespace {

constexpr std::uint64_t slot_bytes = 64, question_at = 56, number_bits = 16;
constexpr std::uint64_t number_mask = (std::uint64_t{1} << number_bits) - 1;
// Words that a peer WRITEs in place of a question's number (a question asks for the reference clock's time):
// it has compared its clock for the first time, or all its clients have ended.
constexpr std::uint64_t aligned_mark = number_mask + 1, ended_mark = number_mask + 2;

constexpr int full_rounds = 3'000, short_rounds = 2'000, last_tries = 3;
constexpr Nanos full_most = 400'000'000, short_most = 20'000'000;
constexpr Nanos between = 250'000'000;            // from one alignment during the load to the next
constexpr Nanos first_patience = 20'000'000'000;  // for the reference process to begin
constexpr Nanos patience = 2'000'000'000;  // for an answer, and of the reference process for a silent peer
constexpr Nanos spinning = 100'000;        // so long nobody who awaits a word gives up its core
constexpr Nanos attention = 300'000;       // the reference process polls that long behind a question
constexpr Nanos pause = 500'000;           // and then looks that often

}  // namespace

Result<std::unique_ptr<ClockExchange>> ClockExchange::make(fabric::Fabric& fabric,
                                                           std::vector<fabric::NodeId> participants,
                                                           fabric::NodeId own, std::uint32_t clients) {
  std::unique_ptr<ClockExchange> made(new ClockExchange(fabric, std::move(participants), own, clients));
  const std::uint64_t slots = std::max<std::uint64_t>(2, fabric.nodes());
  fabric::RegionSpec spec{.name = "loch.clocks", .bytes = 2 * slots * slot_bytes, .elision = {}};
  spec.remote_write = true;
  LOCH_ASSIGN(made->region_, fabric.register_region(own, spec));
  made->seen_.resize(slots);
  made->answers_.reserve(full_rounds);
  return made;
}

// Finds the other nodes' regions; false if WRITEs cannot be exchanged with all of them.
bool ClockExchange::look_up() {
  if (!fabric_.capabilities().rc) return false;
  for (const fabric::NodeId node : participants_) {
    if (node == own_ || (!is_reference() && node != reference())) continue;
    const auto found = fabric_.lookup(node, region_->name());
    if (!found) return false;
    peers_.push_back({.node = node, .region = *found});
  }
  return true;
}

std::map<fabric::NodeId, check::ClockSample> ClockExchange::told() const {
  std::map<fabric::NodeId, check::ClockSample> out;
  if (!is_reference()) return out;
  for (const Peer& peer : peers_) {
    const std::uint64_t at = peer.node * slot_bytes;
    const auto word = [&](std::uint64_t i) {
      return static_cast<Nanos>(fabric::load_word(region_->at(at + 8 * i)));
    };
    if (word(2) > 0) out[peer.node] = {word(0), word(1), word(2), word(3)};
  }
  return out;
}

// WRITEs a word to another node; the WRITE's local buffer is at offset `staged` of this node's region.
void ClockExchange::write_word(fabric::Worker& worker, const fabric::RemoteRegion& to, std::uint64_t offset,
                               std::uint64_t staged, std::uint64_t value) const {
  fabric::store_word_release(region_->at(staged), value);
  fabric::WorkRequest write = one_sided(fabric::Verb::write, to, offset, {region_, staged}, 8, nullptr);
  write.is_inline = fabric_.capabilities().max_inline_bytes >= 8;
  worker.post_detached(write);
}

// ---- The reference process, which answers questions for the time of its clock -----------------

bool ClockExchange::is_question(void* context, std::uint32_t index, std::uint64_t word) {
  return word != 0 && word != static_cast<ClockExchange*>(context)->seen_[index];
}

bool ClockExchange::is_asked() const {
  return std::ranges::any_of(peers_, [&](const Peer& peer) {
    const std::uint64_t word = fabric::load_word(region_->at(peer.node * slot_bytes + question_at));
    return word != 0 && word != seen_[peer.node];
  });
}

void ClockExchange::answer(fabric::Worker& worker, std::uint32_t node) {
  const std::uint64_t half = region_->bytes() / 2;
  const std::uint64_t word = fabric::load_word(region_->at(node * slot_bytes + question_at));
  const auto peer = std::ranges::find(peers_, node, &Peer::node);
  if (peer == peers_.end() || word == seen_[node]) return;
  seen_[node] = word;
  const Nanos now = worker.now();
  peer->heard = now;
  peer->is_aligned |= word == aligned_mark;
  peer->has_ended |= word == ended_mark;
  if (word > number_mask) return;
  write_word(worker, peer->region, question_at, half + node * slot_bytes,
             static_cast<std::uint64_t>(now) << number_bits | word);
}

// Answers other nodes' questions for the reference clock's time until none has come for a while, or the
// deadline passes.
coro::Task<void> ClockExchange::answer_until_idle(fabric::Worker* worker, Nanos deadline) {
  const fabric::WatchSet questions{.region = region_,
                                   .offset = question_at,
                                   .stride = static_cast<std::uint32_t>(slot_bytes),
                                   .count = static_cast<std::uint32_t>(seen_.size()),
                                   .ready = &ClockExchange::is_question,
                                   .context = this,
                                   .known = seen_.data()};
  std::uint32_t start = 0;
  while (!worker->stopping() && worker->now() < deadline) {
    // A worker that has a ready coroutine keeps polling its device. A worker whose coroutines all wait for a
    // change of memory may give up its core, and would answer late. So this coroutine stays ready for a
    // while.
    const Nanos spun = worker->now() + spinning;
    while (!is_asked() && worker->now() < spun) co_await worker->run_queue().yield();
    const Nanos until = worker->now() + attention;
    const fabric::WatchAny any = co_await worker->watch_any(questions, start, until);
    if (any.outcome != fabric::WatchOutcome::ready) co_return;
    answer(*worker, any.index);
    start = any.index;
  }
}

template <typename Done>
bool ClockExchange::are_all(const fabric::Worker& worker, Done done) const {
  return std::ranges::all_of(
      peers_, [&](const Peer& peer) { return done(peer) || peer.has_ended || !worker.connected(peer.node); });
}

// Answers the other processes' questions for the reference clock's time until each of them has compared its
// clock, and then tells all of them to start the load.
coro::Task<void> ClockExchange::lead_first(fabric::Worker* worker) {
  const Nanos deadline = worker->now() + first_patience;
  const auto is_aligned = [](const Peer& peer) { return peer.is_aligned; };
  while (!worker->stopping() && worker->now() < deadline && !are_all(*worker, is_aligned))
    co_await answer_until_idle(worker, deadline);
  const std::uint64_t half = region_->bytes() / 2;
  for (const Peer& peer : peers_) {
    if (worker->connected(peer.node))
      write_word(*worker, peer.region, slot_bytes + question_at, half + peer.node * slot_bytes + 8, 1);
  }
}

// Answers the other processes' questions for the reference clock's time during the load, and until their
// clients have ended.
coro::Task<void> ClockExchange::lead_on(fabric::Worker* worker) {
  Nanos alone = 0;  // since when this process's own clients have ended
  const auto has_ended = [&](const Peer& peer) {
    // a process that has not asked for the reference clock's time for too long counts as lost
    return worker->now() - std::max(alone, peer.heard) > patience;
  };
  while (!worker->stopping()) {
    if (clients_left_.load() == 0) {
      if (alone == 0) alone = worker->now();
      if (are_all(*worker, has_ended)) co_return;
    }
    const Nanos soon = worker->now() + (alone == 0 ? pause : attention);
    co_await worker->sleep_until(soon);
    if (is_asked()) co_await answer_until_idle(worker, fabric::forever);
  }
}

// ---- The other processes, which compare their clocks with the reference clock -----------------

bool ClockExchange::is_answered(std::uint64_t number) const {
  return (fabric::load_word(region_->at(question_at)) & number_mask) == number;
}

// Compares this process's clock with the reference clock by a row of questions (check::compare_clocks). Waits
// at most `wait` ns for each answer.
coro::Task<bool> ClockExchange::measure(fabric::Worker* worker, int rounds, Nanos most, Nanos wait) {
  constexpr int least_rounds = 20;
  const Peer& reference = peers_.front();
  const std::uint64_t half = region_->bytes() / 2;
  answers_.clear();
  const Nanos began = worker->now();
  for (int round = 0; round < rounds; ++round) {
    if (round >= least_rounds && worker->now() - began > most) break;
    number_ = number_ == number_mask ? 1 : number_ + 1;
    const fabric::WatchWord awaited{.region = region_,
                                    .offset = question_at,
                                    .mask = number_mask,
                                    .value = number_,
                                    .until_equal = true,
                                    .peer = reference.node};
    const Nanos asked = worker->now();
    write_word(*worker, reference.region, own_ * slot_bytes + question_at, half, number_);
    const Nanos deadline = asked + wait;
    Nanos heard = asked;
    while (!is_answered(number_) && heard - asked < spinning) {
      co_await worker->run_queue().yield();
      heard = worker->now();
    }
    const fabric::WatchOutcome outcome = co_await worker->watch(awaited, deadline);
    heard = worker->now();
    if (outcome != fabric::WatchOutcome::ready) co_return false;
    const auto theirs = static_cast<Nanos>(fabric::load_word(region_->at(question_at)) >> number_bits);
    answers_.push_back({.asked = asked, .heard = heard, .reference = theirs});
  }
  samples_.push_back(check::compare_clocks(answers_, {}));
  co_return true;
}

// Tells the reference node the result of this process's last comparison of clocks, and then a word:
// aligned_mark, ended_mark or 0 (none).
coro::Task<void> ClockExchange::tell(fabric::Worker* worker, std::uint64_t word) {
  const Peer& reference = peers_.front();
  const std::uint64_t staged = region_->bytes() / 2 + slot_bytes;
  if (!samples_.empty()) {
    const check::ClockSample& last = samples_.back();
    const std::array<Nanos, 4> words{last.at, last.offset, last.error, last.round_trip};
    for (std::size_t i = 0; i < words.size(); ++i)
      fabric::store_word_release(region_->at(staged + 8 * i), static_cast<std::uint64_t>(words[i]));
    const fabric::LocalSlice from{region_, staged};
    const fabric::Completion done =
        co_await worker->write(reference.region, own_ * slot_bytes, from, sizeof words);
    if (!done.ok()) co_return;
  }
  if (word == 0) co_return;
  fabric::store_word_release(region_->at(staged), word);
  const fabric::LocalSlice from{region_, staged};
  const fabric::Completion done =
      co_await worker->write(reference.region, own_ * slot_bytes + question_at, from, 8);
  // whether the WRITE succeeded is not used: if the reference node cannot be reached, it stops waiting for
  // this process by itself
  static_cast<void>(done);
}

coro::Task<void> ClockExchange::align_first(fabric::Worker* worker) {
  is_usable_ = look_up();
  if (is_usable_ && is_reference()) co_await lead_first(worker);
  if (is_usable_ && !is_reference()) {
    is_usable_ = co_await measure(worker, full_rounds, full_most, first_patience);
    if (is_usable_) {
      co_await tell(worker, aligned_mark);
      const fabric::WatchWord start{
          .region = region_, .offset = slot_bytes + question_at, .value = 1, .peer = reference()};
      const Nanos deadline = worker->now() + first_patience;
      const fabric::WatchOutcome outcome = co_await worker->watch(start, deadline);
      // whether the start sign came is not used: the load begins even if the reference node has given none in
      // time
      static_cast<void>(outcome);
    }
  }
  has_begun_.store(true);
}

coro::Task<void> ClockExchange::keep_aligned(fabric::Worker* worker) {
  constexpr Nanos look = 1'000'000;
  if (!is_usable_) co_return;
  if (is_reference()) {
    co_await lead_on(worker);
    co_return;
  }
  Nanos next = worker->now() + between;
  while (clients_left_.load() > 0 && !worker->stopping()) {
    const Nanos soon = std::min(next, worker->now() + look);
    co_await worker->sleep_until(soon);
    if (worker->now() < next || clients_left_.load() == 0) continue;
    const bool is_measured = co_await measure(worker, short_rounds, short_most, patience);
    if (!is_measured) co_return;
    co_await tell(worker, 0);
    next = worker->now() + between;
  }
  // The last comparison of clocks is repeated until its error is at most one and a half times the smallest
  // error of all comparisons: if other programs use the cores, a later try may have a shorter round trip.
  const Nanos good = std::ranges::min(samples_, {}, &check::ClockSample::error).error * 3 / 2;
  for (int i = 0; i < last_tries && !worker->stopping(); ++i) {
    const bool is_measured = co_await measure(worker, full_rounds, full_most, patience);
    // if this comparison failed, the bound on the clock's drift is counted from the last successful
    // comparison on
    if (!is_measured) break;
    if (samples_.back().error <= good) break;
  }
  co_await tell(worker, ended_mark);
}

}  // namespace loch::workloads
