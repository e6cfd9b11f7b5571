// The buddy allocator of the extents (the paper ports SQLite's mem5): blocks of powers of two, each
// aligned to its size, merged with their buddies when they come back. It hands out offsets and touches
// no memory but its own bitmaps; single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace loch::pilaf {

// A set of numbers 0 … n-1, whose least is found in a few steps: a bitmap, a bitmap of its words that are
// not empty, and so on.
class NumberSet {
 public:
  explicit NumberSet(std::uint64_t n);
  void insert(std::uint64_t number);
  void erase(std::uint64_t number);
  [[nodiscard]] bool contains(std::uint64_t number) const;
  [[nodiscard]] std::optional<std::uint64_t> least() const;

 private:
  std::uint64_t size_;
  std::vector<std::vector<std::uint64_t>> levels_;  // [0]: a bit a number
};

class BuddyAllocator {
 public:
  // For an arena that may grow to `most_bytes`, a multiple of `least_block`, a power of two. Empty at first.
  BuddyAllocator(std::uint64_t most_bytes, std::uint64_t least_block);

  // The arena is [0, bytes) from now on; bytes is a multiple of the least block and never less than before.
  void extend(std::uint64_t bytes);
  // The lowest of the smallest free blocks that fit; none: the arena is too full or too scattered.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  // Gives back what allocate(bytes) returned.
  void free(std::uint64_t offset, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t block_of(std::uint64_t bytes) const;  // size of the block that is used
  [[nodiscard]] std::uint64_t arena_bytes() const { return arena_; }
  [[nodiscard]] std::uint64_t free_bytes() const { return free_; }

 private:
  [[nodiscard]] std::uint32_t order_of(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t size_of(std::uint32_t order) const {
    return std::uint64_t{1} << bits_of(order);
  }
  [[nodiscard]] std::uint32_t bits_of(std::uint32_t order) const { return least_bits_ + order; }
  void release(std::uint64_t offset, std::uint32_t order);

  std::uint64_t most_, least_block_;
  std::uint32_t least_bits_;  // of the least block: its size's logarithm
  std::uint64_t arena_ = 0, free_ = 0;
  std::vector<NumberSet> free_blocks_;  // by order: numbers of blocks of that size
};

}  // namespace loch::pilaf
