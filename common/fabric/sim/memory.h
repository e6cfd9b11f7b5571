// Registered memory of simulated nodes. Its pages are allocated when first written, workers can watch it for
// changes, and messages copy only the bytes that both regions store (Elision in region.h).
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

// A region of a simulated node. The operating system allocates its pages when they are first written.
class alignas(64) SimRegion : public Region {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SimRegion>> map(NodeId node, std::uint32_t id,
                                                              const RegionSpec& spec, double data_scale);
  ~SimRegion() override;

  [[nodiscard]] const RegionSpec& spec() const { return spec_; }
  // Address of the stored byte that has `before` stored bytes in front of it in the region
  // (Region::kept_before).
  [[nodiscard]] std::byte* kept_at(std::uint64_t before) const { return mapping_ + before; }
  // Size in bytes of what the region stands for: its own, or more if a simulation is of a part of a data set
  // (SimConfig::data_scale).
  [[nodiscard]] std::uint64_t extent() const { return extent_; }
  // Where an access at `now` to the byte at `offset` lies in that extent. An entry of the region stands for
  // as many as the data set is larger; which of them is meant is drawn anew every quarter of a millisecond,
  // so that the requests of one operation mean the same one, and all of the extent is in use. Bytes of an
  // entry stay together.
  [[nodiscard]] std::uint64_t place_in_extent(std::uint64_t offset, Nanos now) const {
    return scale_ == 1 ? offset : drawn_place(offset, now);
  }
  // Zeroes the memory, as a restart of the node does.
  void clear();

  // A poller of the bytes [begin, end). Pollers are stored contiguously, oldest first, because every message
  // that is placed checks all of them.
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

  // Marks the region until `at` as in use by an atomic that reads the word at one instant and writes it at a
  // later one (an injected fault).
  void hold_until(Nanos at) { held_until_ = at; }
  [[nodiscard]] Nanos held_until() const { return held_until_; }

  // Access rights of peers, copied from the RegionSpec to lie next to the other members that each request
  // reads.
  struct Rights {
    bool read = false, write = false, atomic = false;
  };
  std::uint32_t rkey = 0;
  const Rights rights;

 private:
  SimRegion(NodeId node, std::uint32_t id, const RegionSpec& spec, double data_scale, std::byte* data,
            std::uint64_t mapped);
  [[nodiscard]] std::uint64_t drawn_place(std::uint64_t offset, Nanos now) const;
  std::byte* mapping_;
  std::vector<Watched> watches_;
  Nanos held_until_ = 0;
  RegionSpec spec_;
  std::uint64_t mapped_;
  double scale_;
  std::uint64_t extent_;
};

// A message in transit: its source region, and a copy of those of its bytes that this region stores (Elision
// in region.h).
struct Staged {
  Staged* next_free = nullptr;
  const Region* source = nullptr;
  std::uint64_t offset = 0;  // offset in the source region, in which bytes that are not stored count too
  // how many bytes of the source region are stored before the first byte of the message
  std::uint64_t first = 0;
  std::uint64_t kept = 0;    // how many of the message's bytes the source region stores
  std::uint32_t length = 0;  // length of the message, in which bytes that are not stored count too
  std::uint8_t size_class = 0;
  std::uint8_t part = 0;  // the part of the simulation whose pool owns this buffer
  // Number of bytes that the source region stores before byte `at` of the message.
  [[nodiscard]] std::uint64_t kept_before(std::uint32_t at) const {
    return at == 0 ? first : at == length ? first + kept : source->kept_before(offset + at);
  }
  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }
};

// A pool of buffers whose sizes are powers of two, with a free list for each size.
class StagingPool {
 public:
  // `part`: the part of the simulation to which the pool belongs
  explicit StagingPool(std::uint8_t part = 0) : part_(part) {}
  ~StagingPool();
  StagingPool(const StagingPool&) = delete;
  StagingPool& operator=(const StagingPool&) = delete;
  // Takes a buffer for the bytes [offset, offset + length) of `source`, which has to outlive the buffer. The
  // buffer's contents are undefined.
  [[nodiscard]] Staged* take(const Region& source, std::uint64_t offset, std::uint32_t length);
  void give(Staged* staged);
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }

 private:
  [[nodiscard]] Staged* grow(std::uint8_t size_class);
  static constexpr std::uint32_t classes = 40;
  std::uint8_t part_;
  Staged* free_[classes] = {};
  std::uint64_t allocations_ = 0;
  std::vector<void*> blocks_;
};

// Prefetches the stored bytes of [offset, offset + length) in the region, or the first 512 of them. The range
// may exceed the region.
inline void prefetch_kept(const SimRegion& region, std::uint64_t offset, std::uint64_t length) {
  if (offset >= region.bytes()) return;
  constexpr std::uint64_t most = 512;  // bytes; the hardware prefetcher fetches what follows
  const std::uint64_t end = offset + std::min(length, region.bytes() - offset);
  const std::uint64_t before = region.kept_before(offset);
  const std::uint64_t kept = std::min(region.kept_before(end) - before, most);
  const std::byte* const first = region.kept_at(before);
  for (std::uint64_t at = 0; at < kept; at += 64) __builtin_prefetch(first + at);
  if (kept > 0) __builtin_prefetch(first + kept - 1);
}

// Copies the part [begin, end) of the message (logical offsets in the message) from its source region.
void gather(Staged* staged, std::uint32_t begin, std::uint32_t end);
// Copies the part [begin, end) of the message to the target region, where the message's first byte is at
// target_offset. Bytes that the source or the target region does not store are left out.
void scatter(Staged* staged, const Region& target, std::uint64_t target_offset, std::uint32_t begin,
             std::uint32_t end);

}  // namespace loch::fabric::sim
