// Maps zeroed memory, in huge pages where the kernel has them, and unmaps it.
#include "common/fabric/realtime/mapping.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace loch::fabric::realtime {
namespace {

constexpr std::size_t huge_page = 2 << 20;
constexpr int rights = PROT_READ | PROT_WRITE;
constexpr int kind = MAP_PRIVATE | MAP_ANONYMOUS;

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
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::exhausted, fmt::format("no memory of {} bytes: {}", bytes, std::strerror(errno)));
  }
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return Mapping(static_cast<std::byte*>(memory), bytes);
}

std::optional<Mapping> huge_memory(std::size_t bytes) {
  if (bytes < huge_page / 2) return std::nullopt;
  const std::size_t rounded = (bytes + huge_page - 1) / huge_page * huge_page;
  void* memory = mmap(nullptr, rounded, rights, kind | MAP_HUGETLB, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  return Mapping(static_cast<std::byte*>(memory), rounded);
}

}  // namespace loch::fabric::realtime
