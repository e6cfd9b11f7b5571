// An arena whose whole content can be saved and restored. While a Use object lives, everything that its
// thread allocates with `new`, coroutine frames included, lies in one address range that never moves, so that
// pointers stay valid after a restore. The explorer backtracks by restoring: a deployment with its clients
// takes some tens of kilobytes.
//
// Objects that belong to the explored run have to be allocated under a Use, and results that outlive it under
// a Pause. Builds with ASan or TSan have their own `new`: there make() returns null.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/coro/frame_pool.h"

namespace loch::explore {

class Arena {
 public:
  // Saved content: the blocks that differ from the content at mark().
  struct Saved {
    std::vector<std::uint32_t> blocks;   // block numbers, ascending
    std::unique_ptr<std::byte[]> bytes;  // content of the blocks, block_bytes each
  };

  // Makes the arena. Returns null if one exists already, or in builds with a sanitizer.
  [[nodiscard]] static std::unique_ptr<Arena> make();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // While an object of this class lives, `new` on its thread allocates from the arena.
  class Use {
   public:
    explicit Use(Arena* arena);  // with null, the object has no effect
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Arena* outer_;
    coro::FramePool* outer_pool_;
    bool is_on_;
  };
  // While an object of this class lives, `new` on its thread allocates with malloc again, even under a Use.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Arena* outer_;
  };

  // Records the present content, to which reset() returns, and against which save() computes differences.
  void mark();
  void reset();
  [[nodiscard]] Saved save();
  void restore(const Saved& saved);
  [[nodiscard]] std::size_t used() const;

  // Called by the program's operator new and delete only.
  [[nodiscard]] void* allocate(std::size_t bytes, std::size_t alignment);
  static void release(void* pointer);
  [[nodiscard]] static bool owns(const void* pointer);
  [[nodiscard]] static Arena* current();

  static constexpr std::size_t block_bytes = 512;

 private:
  struct State;
  Arena();
  void restore_blocks(const Saved* saved);

  State* state_;  // free lists; at the start of the arena's address range, so that save() includes them
  coro::FramePool* pool_;                 // the coroutines' frame pool, allocated in the arena
  std::vector<std::byte> first_;          // contents of the arena at mark()
  std::vector<std::uint32_t> different_;  // working memory of save(): indices of the changed blocks
};

}  // namespace loch::explore
