// Records the numbers that clients of this process were given: a sequencer's own safety check. Each number
// may be given only once, and has to be larger than every number given before its request began. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace loch::sequencer {

class Ledger {
 public:
  // `first`: the first number that the sequencer gives out.
  explicit Ledger(std::uint64_t first);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // One more than the largest number given so far; to be read when a request begins.
  [[nodiscard]] std::uint64_t beyond() const { return beyond_.load(std::memory_order_acquire); }
  // Records a number for a request that began when beyond() was `asked_at`. `claimed`: one more than the
  // largest number that the sequencer has given out by now; `unknown` if the sequencer is in another process.
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};
  void give(std::uint64_t number, std::uint64_t asked_at, std::uint64_t claimed = unknown);

  struct Counts {
    std::uint64_t given = 0;
    std::uint64_t twice = 0;         // numbers that were given before
    std::uint64_t out_of_order = 0;  // numbers not above one that was given out before the request began
    // numbers that a client received although the sequencer had not given them out by then
    std::uint64_t unclaimed = 0;
    std::uint64_t far = 0;  // numbers beyond the end of the bitmap
  };
  [[nodiscard]] Counts counts() const;
  // Adds the counters "numbers", "numbers_twice", "numbers_out_of_order", "numbers_unclaimed" and
  // "numbers_far".
  void report(std::map<std::string, double>& counters) const;

 private:
  static constexpr std::uint64_t chunk_bits = std::uint64_t{1} << 20;
  static constexpr std::size_t most_chunks = std::size_t{1} << 16;
  using Word = std::atomic<std::uint64_t>;

  [[nodiscard]] Word* chunk(std::uint64_t index);

  std::uint64_t first_;
  std::unique_ptr<std::atomic<Word*>[]> chunks_;
  std::atomic<std::uint64_t> beyond_;
  std::atomic<std::uint64_t> given_{0}, twice_{0}, out_of_order_{0}, unclaimed_{0}, far_{0};
};

}  // namespace loch::sequencer
