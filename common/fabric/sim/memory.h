// Simulated registered memory: lazily zeroed, copied as far as it is kept, watched.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/fabric.h"
#include "common/fabric/region.h"

namespace loch::fabric::sim {

struct SimWatch;

// A region of a simulated node. The pages come from the system when they are first written.
class alignas(64) SimRegion : public Region {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SimRegion>> map(NodeId node, std::uint32_t id,
                                                              const RegionSpec& spec);
  ~SimRegion() override;

  [[nodiscard]] const RegionSpec& spec() const { return spec_; }
  // The address of the stored byte that follows `before` stored ones (Region::kept_before).
  [[nodiscard]] std::byte* kept_at(std::uint64_t before) const { return mapping_ + before; }
  // Fresh memory, as after a restart of the node.
  void clear();

  // A poller of the bytes [begin, end). Pollers are contiguous, oldest first, because every message that
  // lands looks at all of them.
  struct Watched {
    std::uint64_t begin = 0, end = 0;
    SimWatch* watch = nullptr;
  };
  void add_watch(const Watched& watched) { watches_.push_back(watched); }
  void remove_watch(const SimWatch* watch) {
    std::size_t i = watches_.size() - 1;
    while (watches_[i].watch != watch) --i;
    watches_.erase(watches_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  [[nodiscard]] const std::vector<Watched>& watches() const { return watches_; }

  // A split atomic is between its read and its write until then.
  void hold_until(Nanos at) { held_until_ = at; }
  [[nodiscard]] Nanos held_until() const { return held_until_; }

  // A peer's access rights; copied from the spec, next to the other members that a request reads.
  struct Rights {
    bool read = false, write = false, atomic = false;
  };
  std::uint32_t rkey = 0;
  const Rights rights;

 private:
  SimRegion(NodeId node, std::uint32_t id, const RegionSpec& spec, std::byte* data, std::uint64_t mapped);
  std::byte* mapping_;
  std::vector<Watched> watches_;
  Nanos held_until_ = 0;
  RegionSpec spec_;
  std::uint64_t mapped_;
};

// The kept bytes of a message on its way, and the region that they came from.
struct Staged {
  Staged* next_free = nullptr;
  const Region* source = nullptr;
  std::uint64_t offset = 0;  // logical, of the source
  std::uint64_t first = 0;   // kept bytes of the source in front of it
  std::uint64_t kept = 0;    // and in it
  std::uint32_t length = 0;  // logical
  std::uint8_t size_class = 0;
  // Kept bytes of the source in front of the message's byte number `at`.
  [[nodiscard]] std::uint64_t kept_before(std::uint32_t at) const {
    return at == 0 ? first : at == length ? first + kept : source->kept_before(offset + at);
  }
  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

// Buffers of powers of two, kept on free lists.
class StagingPool {
 public:
  StagingPool() = default;
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  // A buffer for [offset, offset + length) of a region that outlives it; not filled yet.
  [[nodiscard]] Staged* take(const Region& source, std::uint64_t offset, std::uint32_t length);
  void give(Staged* staged);
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }

 private:
  [[nodiscard]] Staged* grow(std::uint8_t size_class);
  static constexpr std::uint32_t classes = 40;
  Staged* free_[classes] = {};
  std::uint64_t allocations_ = 0;
  std::vector<void*> blocks_;
};

// Brings what the region keeps of [offset, offset + length) into this machine's cache, or its first
// lines, while other events go on. Any offset and length will do.
inline void prefetch_kept(const SimRegion& region, std::uint64_t offset, std::uint64_t length) {
  if (offset >= region.bytes()) return;
  constexpr std::uint64_t most = 512;  // beyond this the hardware prefetcher continues
  const std::uint64_t end = offset + std::min(length, region.bytes() - offset);
  const std::uint64_t before = region.kept_before(offset);
  const std::uint64_t kept = std::min(region.kept_before(end) - before, most);
  const std::byte* const first = region.kept_at(before);
  for (std::uint64_t at = 0; at < kept; at += 64) __builtin_prefetch(first + at);
  if (kept > 0) __builtin_prefetch(first + kept - 1);
}

// Copies the part [begin, end) of the message (logical, from its start) out of its source region.
void gather(Staged* staged, std::uint32_t begin, std::uint32_t end);
// Copies the part [begin, end) of the message to where it belongs: target_offset is that of the
// message's first byte. What either side does not keep is left out.
void scatter(Staged* staged, const Region& target, std::uint64_t target_offset, std::uint32_t begin,
             std::uint32_t end);

}  // namespace loch::fabric::sim
