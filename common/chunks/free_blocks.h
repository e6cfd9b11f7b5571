// The free blocks of one worker on one node, in the order in which they became free.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace loch::chunks {

// A free block, which nothing names, and the generation that its next use gives it.
struct Block {
  std::uint64_t number = 0;  // in the unit that its protocol chooses
  std::uint32_t generation = 0;
};

// A queue of free blocks. Consecutive blocks that became free together are stored as one run, because a
// client may begin with millions of them.
class FreeBlocks {
 public:
  // Adds `count` consecutive blocks, whose numbers grow by `units` and which have the generation of the
  // first.
  void add(Block first, std::uint64_t count = 1, std::uint64_t units = 0) {
    if (count > 0) runs_.push_back({first, count, units});
    size_ += count;
  }
  [[nodiscard]] std::optional<Block> take_oldest() {
    if (runs_.empty()) return std::nullopt;
    Run& oldest = runs_.front();
    const Block block = oldest.first;
    oldest.first.number += oldest.units;
    if (--oldest.count == 0) runs_.pop_front();
    --size_;
    return block;
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  struct Run {
    Block first;
    std::uint64_t count = 0, units = 0;  // Block::number grows by `units` from one block to the next
  };
  [[nodiscard]] const std::deque<Run>& runs() const { return runs_; }  // oldest first

 private:
  std::deque<Run> runs_;
  std::uint64_t size_ = 0;
};

}  // namespace loch::chunks
