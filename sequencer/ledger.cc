// Marks in a bitmap the numbers that were given out, and counts those given twice or out of order.
#include "sequencer/ledger.h"

namespace loch::sequencer {
namespace {

void count(std::atomic<std::uint64_t>& counter) { counter.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

Ledger::Ledger(std::uint64_t first)
    : first_(first), chunks_(std::make_unique<std::atomic<Word*>[]>(most_chunks)), beyond_(first) {}

Ledger::~Ledger() {
  for (std::size_t i = 0; i < most_chunks; ++i) delete[] chunks_[i].load();
}

Ledger::Word* Ledger::chunk(std::uint64_t index) {
  std::atomic<Word*>& place = chunks_[index];
  if (Word* known = place.load(std::memory_order_acquire); known != nullptr) return known;
  auto made = std::make_unique<Word[]>(chunk_bits / 64);
  Word* none = nullptr;
  if (place.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel)) return made.release();
  return none;  // another thread has installed this block of the bitmap first
}

void Ledger::give(std::uint64_t number, std::uint64_t asked_at, std::uint64_t claimed) {
  count(given_);
  if (number >= claimed || number < first_) return count(unclaimed_);
  if (number < asked_at) count(out_of_order_);
  std::uint64_t beyond = beyond_.load(std::memory_order_relaxed);
  while (number >= beyond && !beyond_.compare_exchange_weak(beyond, number + 1, std::memory_order_acq_rel)) {
  }
  const std::uint64_t bit = number - first_;
  if (bit / chunk_bits >= most_chunks) return count(far_);
  Word& word = chunk(bit / chunk_bits)[bit % chunk_bits / 64];
  const std::uint64_t mask = std::uint64_t{1} << bit % 64;
  if ((word.fetch_or(mask, std::memory_order_relaxed) & mask) != 0) count(twice_);
}

Ledger::Counts Ledger::counts() const { return {given_, twice_, out_of_order_, unclaimed_, far_}; }

void Ledger::report(std::map<std::string, double>& counters) const {
  const Counts all = counts();
  counters["numbers"] += static_cast<double>(all.given);
  counters["numbers_twice"] += static_cast<double>(all.twice);
  counters["numbers_out_of_order"] += static_cast<double>(all.out_of_order);
  counters["numbers_unclaimed"] += static_cast<double>(all.unclaimed);
  counters["numbers_far"] += static_cast<double>(all.far);
}

}  // namespace loch::sequencer
