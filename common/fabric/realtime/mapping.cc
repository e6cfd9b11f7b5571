// Maps zeroed memory, in huge pages where the kernel has them, copies its pages after a fork, and unmaps it.
#include "common/fabric/realtime/mapping.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "common/base/parallel.h"

namespace loch::fabric::realtime {
namespace {

constexpr std::size_t huge_page = 2 << 20;
constexpr int rights = PROT_READ | PROT_WRITE;
constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS;

Error no_memory(std::size_t bytes) {
  return {ErrorCode::exhausted, fmt::format("no memory of {} bytes: {}", bytes, std::strerror(errno))};
}

std::size_t within_huge_page(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % huge_page; }

// Zeroed memory, in a larger mapping, that begins as far behind the start of a huge page as `like` does: the
// kernel can then move its huge pages to `like` as a whole.
struct Room {
  Mapping whole;
  std::byte* begin = nullptr;
};
Result<Room> room_like(const std::byte* like, std::size_t bytes) {
  LOCH_ASSIGN(Mapping whole, zeroed_memory(bytes + huge_page));
  const std::size_t shift = (within_huge_page(like) + huge_page - within_huge_page(whole.data())) % huge_page;
  std::byte* const begin = whole.data() + shift;
  return Room{std::move(whole), begin};
}

// Copies by all cores, a huge page at a time.
void copy_filled(std::byte* to, const std::byte* from, std::size_t bytes) {
  const std::size_t pieces = (bytes + huge_page - 1) / huge_page;
  (void)in_parallel(pieces, usable_cores(), [&](std::size_t i) -> Result<> {
    const std::size_t at = i * huge_page, length = std::min(huge_page, bytes - at);
    const std::byte* const first = from + at;
    // All bytes are 0 if the first one is, and each equals the one behind it.
    const bool is_zero = first[0] == std::byte{0} && std::memcmp(first, first + 1, length - 1) == 0;
    if (!is_zero) std::memcpy(to + at, first, length);
    return {};
  });
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool prefer_numa_node(const Mapping& mapping, std::uint32_t numa_node) {
  constexpr std::size_t bits = sizeof(unsigned long) * CHAR_BIT;
  std::array<unsigned long, 1024 / bits> nodes{};
  if (numa_node >= nodes.size() * bits) return false;
  nodes[numa_node / bits] = 1UL << numa_node % bits;
  // MPOL_PREFERRED instead of MPOL_BIND, with which an access would end in a SIGBUS where the NUMA node has
  // too few huge pages.
  return syscall(SYS_mbind, mapping.data(), mapping.bytes(), MPOL_PREFERRED, nodes.data(),
                 nodes.size() * bits, 0UL) == 0;
}

Result<Mapping> zeroed_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, rights, kind, -1, 0);
  if (memory == MAP_FAILED) return std::unexpected(no_memory(bytes));
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(memory), bytes);
}

void populate(const Mapping& mapping) {
  constexpr std::size_t piece = 32 * huge_page;
  const std::size_t pieces = (mapping.bytes() + piece - 1) / piece;
  (void)in_parallel(pieces, usable_cores(), [&](std::size_t i) -> Result<> {
    const std::size_t at = i * piece, length = std::min(piece, mapping.bytes() - at);
    if (madvise(mapping.data() + at, length, MADV_POPULATE_WRITE) != 0)
      return fail(ErrorCode::exhausted, "no pages");  // and none for the other pieces
    return {};
  });
}

Result<> own_pages(const Mapping& mapping, std::optional<std::uint32_t> numa_node) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = (mapping.bytes() + page - 1) / page * page;
  LOCH_ASSIGN(Room room, room_like(mapping.data(), bytes));
  if (numa_node) (void)prefer_numa_node(room.whole, *numa_node);
  copy_filled(room.begin, mapping.data(), mapping.bytes());
  if (mremap(room.begin, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, mapping.data()) == MAP_FAILED)
    return std::unexpected(no_memory(bytes));
  return {};
}

std::optional<Mapping> huge_memory(std::size_t bytes) {
  if (bytes < huge_page / 2) return std::nullopt;
  const std::size_t rounded = (bytes + huge_page - 1) / huge_page * huge_page;
  void* memory = mmap(nullptr, rounded, rights, kind | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  return Mapping(static_cast<std::byte*>(memory), rounded);
}

}  // namespace loch::fabric::realtime
