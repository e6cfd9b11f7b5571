// Maps lazily zeroed pages for simulated regions and pools the staging memory of copies.
#include "common/fabric/sim/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>

#include "common/base/rng.h"

namespace loch::fabric::sim {
namespace {

constexpr std::uint64_t small_page = 4096;
constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;
// A region of at least this size is mapped with huge pages, because with small pages each random access to a
// table would miss the TLB. A smaller region would leave more than half of a huge page unused.
constexpr std::uint64_t huge_from = huge_page / 2;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps `bytes` bytes (a multiple of the page size) of zeroed memory; MAP_FAILED on error.
void* map_pages(std::uint64_t bytes) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (bytes < huge_page) return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  // A huge page has to be aligned to its size: maps more than needed, and unmaps the excess on both sides.
  void* mapped = mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) return mapped;
  auto* const first = static_cast<std::byte*>(mapped);
  const std::uint64_t before = -reinterpret_cast<std::uintptr_t>(first) % huge_page;
  if (before != 0) munmap(first, before);
  if (before != huge_page) munmap(first + before + bytes, huge_page - before);
  (void)madvise(first + before, bytes, MADV_HUGEPAGE);
  return first + before;
}

}  // namespace

SimRegion::SimRegion(NodeId node, std::uint32_t id, const RegionSpec& spec, double data_scale,
                     std::byte* data, std::uint64_t mapped)
    : Region(node, id, spec.name, data, spec.bytes, spec.elision),
      rights{spec.remote_read, spec.remote_write, spec.remote_atomic},
      mapping_(data),
      spec_(spec),
      mapped_(mapped),
      scale_(spec.record_bytes == 0 ? 1 : data_scale),
      extent_(static_cast<std::uint64_t>(static_cast<double>(spec.bytes) * scale_)) {}

Result<std::unique_ptr<SimRegion>> SimRegion::map(NodeId node, std::uint32_t id, const RegionSpec& spec,
                                                  double data_scale) {
  const Elision& elision = spec.elision;
  if (elision.on() && (elision.kept_per_entry() > elision.entry_bytes || elision.keep_head % 8 != 0)) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format(
            "region {}: an entry of {} bytes cannot keep {} + {}, and a head is a multiple of 8 bytes",
            spec.name, elision.entry_bytes, elision.keep_head, elision.keep_tail));
  }
  const std::uint64_t kept = std::max<std::uint64_t>(elision.physical_bytes(spec.bytes), 1);
  const std::uint64_t mapped = rounded_up(kept, kept < huge_from ? small_page : huge_page);
  void* data = map_pages(mapped);
  if (data == MAP_FAILED) {
    return fail(ErrorCode::exhausted, fmt::format("region {} of node {}: cannot map {} bytes: {}", spec.name,
                                                  node, mapped, std::strerror(errno)));
  }
  return std::unique_ptr<SimRegion>(
      new SimRegion(node, id, spec, data_scale, static_cast<std::byte*>(data), mapped));
}

std::uint64_t SimRegion::drawn_place(std::uint64_t offset, Nanos now) const {
  const std::uint64_t entry = offset / spec_.record_bytes, within = offset % spec_.record_bytes;
  const std::uint64_t drawn = mix64(mix64(static_cast<std::uint64_t>(now) >> 18) ^ entry);
  const double part = static_cast<double>(drawn >> 11) * 0x1p-53;  // from 0 to less than 1
  return static_cast<std::uint64_t>((static_cast<double>(entry) + part) * scale_) * spec_.record_bytes +
         within;
}

SimRegion::~SimRegion() { munmap(mapping_, mapped_); }

void SimRegion::clear() {
  // Private anonymous pages that were released with MADV_DONTNEED read as zero.
  if (madvise(mapping_, mapped_, MADV_DONTNEED) != 0) std::memset(mapping_, 0, mapped_);
}

StagingPool::~StagingPool() {
  for (void* block : blocks_) std::free(block);
}

Staged* StagingPool::take(const Region& source, std::uint64_t offset, std::uint32_t length) {
  const std::uint64_t first = source.kept_before(offset);
  const std::uint64_t kept = source.kept_before(offset + length) - first;
  constexpr std::uint64_t least = 64;
  const auto size_class = static_cast<std::uint8_t>(std::bit_width(std::max(kept, least) - 1));
  Staged* staged = free_[size_class];
  if (staged != nullptr) {
    free_[size_class] = staged->next_free;
  } else {
    staged = grow(size_class);
  }
  staged->source = &source;
  staged->offset = offset;
  staged->first = first;
  staged->kept = kept;
  staged->length = length;
  staged->size_class = size_class;
  staged->part = part_;
  return staged;
}

// Allocates a buffer of 2^size_class bytes. Buffers of up to 4 KiB are allocated 64 at a time: one is
// returned and the other 63 go to the pool.
Staged* StagingPool::grow(std::uint8_t size_class) {
  const std::uint64_t stride = sizeof(Staged) + (std::uint64_t{1} << size_class);
  const std::uint64_t count = size_class <= 12 ? 64 : 1;
  auto* block = static_cast<std::byte*>(std::malloc(stride * count));
  LOCH_CHECK(block != nullptr, "no memory for messages of {} bytes", stride);
  blocks_.push_back(block);
  ++allocations_;
  for (std::uint64_t i = count; i-- > 1;) {
    auto* staged = new (block + i * stride) Staged;
    staged->size_class = size_class;
    give(staged);
  }
  return new (block) Staged;
}

void StagingPool::give(Staged* staged) {
  staged->next_free = free_[staged->size_class];
  free_[staged->size_class] = staged;
}

// One memcpy suffices, because the stored bytes of a region are contiguous in memory.
void gather(Staged* staged, std::uint32_t begin, std::uint32_t end) {
  const auto& source = static_cast<const SimRegion&>(*staged->source);
  const std::uint64_t from = staged->kept_before(begin);
  const std::uint64_t to = staged->kept_before(end);
  std::memcpy(staged->bytes() + (from - staged->first), source.kept_at(from), to - from);
}

namespace {
// How many bytes from `offset` on, at most `want`, are stored one behind another in a region of which
// `elision` says which part of each entry is stored; 0 if the byte at `offset` is not stored.
std::uint64_t kept_run(const Elision& elision, std::uint64_t offset, std::uint64_t want) {
  if (!elision.on()) return want;
  const std::uint64_t within = offset % elision.entry_bytes;
  const std::uint64_t tail_at = elision.entry_bytes - elision.keep_tail;
  std::uint64_t run = 0;
  if (within < elision.keep_head)
    run = elision.keep_head - within;
  else if (within >= tail_at)
    run = elision.entry_bytes - within;
  return std::min(run, want);
}
}  // namespace

void scatter(Staged* staged, const Region& target, std::uint64_t target_offset, std::uint32_t begin,
             std::uint32_t end) {
  // The source and the target region store the same bytes of the message, so that one copy suffices.
  if (staged->source->keeps_alike(staged->offset, target, target_offset)) {
    const std::uint64_t from = staged->kept_before(begin);
    const std::uint64_t to = staged->kept_before(end);
    std::byte* const landing =
        static_cast<const SimRegion&>(target).kept_at(target.kept_before(target_offset + begin));
    std::memcpy(landing, staged->bytes() + (from - staged->first), to - from);
    return;
  }
  const Elision& elision = staged->source->elision();
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t from = staged->offset + at;
    const std::uint64_t to = target_offset + at;
    const std::uint64_t left = end - at;
    const std::uint64_t in_source = kept_run(elision, from, left);
    if (in_source == 0) {
      at += elision.entry_bytes - elision.keep_tail - from % elision.entry_bytes;
      continue;
    }
    const std::uint64_t in_target = target.kept(to, in_source);
    if (in_target == 0) {
      at += std::min(in_source, target.elided_run(to));
      continue;
    }
    std::memcpy(target.at(to), staged->bytes() + (staged->source->kept_before(from) - staged->first),
                in_target);
    at += in_target;
  }
}

}  // namespace loch::fabric::sim
