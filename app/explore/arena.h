// Memory of which the whole state can be saved and put back: everything that one thread takes with `new`
// while a Use lives, coroutine frames included, lies in one range of addresses that never moves, so pointers
// into it stay true. The explorer goes back by it: a deployment with its clients is some tens of kilobytes.
//
// What a run keeps must be taken under a Use and what outlives it must not: results are copied under a
// Pause. Not in builds with ASan or TSan, which have their own `new`: there make() returns null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/coro/frame_pool.h"

namespace loch::explore {

class Arena {
 public:
  // A state, as the blocks that differ from that of mark().
  struct Saved {
    std::vector<std::uint32_t> blocks;   // in order
    std::unique_ptr<std::byte[]> bytes;  // block_bytes for each
  };

  // The only one at a time: null if there is one already, or in this build there can be none.
  [[nodiscard]] static std::unique_ptr<Arena> make();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // `new` takes from the arena on this thread.
  class Use {
   public:
    explicit Use(Arena* arena);  // null: changes nothing
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Arena* outer_;
    coro::FramePool* outer_pool_;
    bool is_on_;
  };
  // … and here it does not.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Arena* outer_;
  };

  // The state as it is now becomes what others are told by, and what reset() goes back to.
  void mark();
  void reset();
  [[nodiscard]] Saved save();
  void restore(const Saved& saved);
  [[nodiscard]] std::size_t used() const;

  // Called by operator new and delete.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment);
  static void release(void* pointer);
  [[nodiscard]] static bool owns(const void* pointer);
  [[nodiscard]] static Arena* current();

  static constexpr std::size_t block_bytes = 512;

 private:
  struct State;
  Arena();
  void restore_blocks(const Saved* saved);

  State* state_;                          // at the beginning of the range, so that it is saved with the rest
  coro::FramePool* pool_;                 // frame pool, allocated in the range
  std::vector<std::byte> first_;          // contents of the range at mark()
  std::vector<std::uint32_t> different_;  // blocks that save() found changed
};

}  // namespace loch::explore
