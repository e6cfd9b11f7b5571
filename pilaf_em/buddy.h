// The buddy allocator of the extents (the paper ports SQLite's mem5): blocks of powers of two, each aligned
// to its size; a freed block merges with its buddy if that is free. The allocator returns offsets and touches
// no memory except its own bitmaps. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace loch::pilaf {

// A set of numbers 0 … n-1 with fast access to its minimum: a bitmap, a bitmap of the non-empty words of that
// bitmap, and so on.
class NumberSet {
 public:
  explicit NumberSet(std::uint64_t n);
  void insert(std::uint64_t number);
  void erase(std::uint64_t number);
  [[nodiscard]] bool contains(std::uint64_t number) const;
  [[nodiscard]] std::optional<std::uint64_t> least() const;

 private:
  std::uint64_t size_;
  // Level 0 has one bit for each number of the set; level i + 1 has one bit for each word of level i.
  std::vector<std::vector<std::uint64_t>> levels_;
};

class BuddyAllocator {
 public:
  // Makes an allocator with an empty arena, which may grow to `most_bytes`. `least_block` is a power of two,
  // and `most_bytes` is a multiple of it.
  BuddyAllocator(std::uint64_t most_bytes, std::uint64_t least_block);

  // Enlarges the arena to [0, bytes). `bytes` is a multiple of the smallest block and never shrinks.
  void extend(std::uint64_t bytes);
  // Allocates the block with the lowest offset among the smallest free blocks that fit; nullopt if no free
  // block is large enough.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t bytes);
  // Frees the block that allocate(bytes) returned at `offset`.
  void free(std::uint64_t offset, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t block_of(std::uint64_t bytes) const;  // size of the block that holds `bytes`
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
  std::uint32_t least_bits_;  // binary logarithm of the smallest block's size
  std::uint64_t arena_ = 0, free_ = 0;
  std::vector<NumberSet> free_blocks_;  // for each block size, the numbers of its free blocks
};

}  // namespace loch::pilaf
