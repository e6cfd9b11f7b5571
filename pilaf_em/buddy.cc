// The buddy allocator: splits blocks of powers of two, and merges free buddies.
#include "pilaf_em/buddy.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace loch::pilaf {

NumberSet::NumberSet(std::uint64_t n) : size_(n) {
  do {
    n = (n + 63) / 64;
    levels_.emplace_back(std::max<std::uint64_t>(n, 1));
  } while (n > 1);
}

void NumberSet::insert(std::uint64_t number) {
  LOCH_CHECK_LT(number, size_);
  for (auto& level : levels_) {
    level[number / 64] |= std::uint64_t{1} << number % 64;
    number /= 64;
  }
}

void NumberSet::erase(std::uint64_t number) {
  LOCH_CHECK_LT(number, size_);
  for (auto& level : levels_) {
    level[number / 64] &= ~(std::uint64_t{1} << number % 64);
    if (level[number / 64] != 0) return;
    number /= 64;
  }
}

bool NumberSet::contains(std::uint64_t number) const {
  return number < size_ && (levels_[0][number / 64] >> number % 64 & 1) != 0;
}

std::optional<std::uint64_t> NumberSet::least() const {
  if (levels_.back()[0] == 0) return std::nullopt;
  std::uint64_t at = 0;
  for (std::size_t i = levels_.size(); i-- > 0;)
    at = at * 64 + static_cast<std::uint64_t>(std::countr_zero(levels_[i][at]));
  return at;
}

BuddyAllocator::BuddyAllocator(std::uint64_t most_bytes, std::uint64_t least_block)
    : most_(most_bytes),
      least_block_(least_block),
      least_bits_(static_cast<std::uint32_t>(std::countr_zero(least_block))) {
  LOCH_CHECK(std::has_single_bit(least_block), "blocks of {} bytes", least_block);
  LOCH_CHECK(most_bytes > 0 && most_bytes % least_block == 0, "an arena of {} bytes", most_bytes);
  for (std::uint64_t size = least_block; size <= most_bytes; size *= 2)
    free_blocks_.emplace_back(most_bytes / size);
}

std::uint32_t BuddyAllocator::order_of(std::uint64_t bytes) const {
  const std::uint64_t size = std::bit_ceil(std::max(bytes, least_block_));
  return static_cast<std::uint32_t>(std::countr_zero(size)) - least_bits_;
}

std::uint64_t BuddyAllocator::block_of(std::uint64_t bytes) const { return size_of(order_of(bytes)); }

void BuddyAllocator::extend(std::uint64_t bytes) {
  LOCH_CHECK(bytes >= arena_ && bytes <= most_ && bytes % least_block_ == 0, "from {} to {} of {} bytes",
             arena_, bytes, most_);
  while (arena_ < bytes) {
    // Size of the largest aligned block that begins at offset arena_ and ends within `bytes`.
    std::uint64_t size = std::bit_floor(bytes - arena_);
    if (arena_ != 0) size = std::min(size, arena_ & (~arena_ + 1));
    const std::uint64_t at = arena_;
    arena_ += size;
    release(at, order_of(size));
  }
}

std::optional<std::uint64_t> BuddyAllocator::allocate(std::uint64_t bytes) {
  const std::uint32_t wanted = order_of(bytes);
  for (std::uint32_t order = wanted; order < free_blocks_.size(); ++order) {
    const std::optional<std::uint64_t> number = free_blocks_[order].least();
    if (!number) continue;
    free_blocks_[order].erase(*number);
    const std::uint64_t at = *number * size_of(order);
    // Splits the block in halves until it has the wanted size, and frees each upper half.
    while (order > wanted) {
      --order;
      free_blocks_[order].insert((at + size_of(order)) >> bits_of(order));
    }
    free_ -= size_of(wanted);
    return at;
  }
  return std::nullopt;
}

void BuddyAllocator::free(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint32_t order = order_of(bytes);
  LOCH_CHECK(order < free_blocks_.size(), "no block of {} bytes", bytes);
  LOCH_CHECK((offset & (size_of(order) - 1)) == 0 && offset + size_of(order) <= arena_,
             "no block of {} bytes at {}", size_of(order), offset);
  for (std::uint32_t larger = order; larger < free_blocks_.size(); ++larger) {
    LOCH_CHECK(!free_blocks_[larger].contains(offset >> bits_of(larger)), "the block at {} is free already",
               offset);
  }
  release(offset, order);
}

void BuddyAllocator::release(std::uint64_t offset, std::uint32_t order) {
  free_ += size_of(order);
  std::uint64_t number = offset >> bits_of(order);
  while (order + 1 < free_blocks_.size()) {
    const std::uint64_t buddy = number ^ 1;
    if (!free_blocks_[order].contains(buddy)) break;
    // A parent block that exceeds the arena's maximum size does not exist, so the merging ends.
    if ((number / 2 + 1) * size_of(order + 1) > most_) break;
    free_blocks_[order].erase(buddy);
    number /= 2;
    ++order;
  }
  free_blocks_[order].insert(number);
}

}  // namespace loch::pilaf
