// Maps zeroed memory for the regions of this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/result.h"

namespace loch::fabric::realtime {

// Pages from mmap, which the destructor unmaps.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Asks for the mapping's pages on the given NUMA node of this machine; to be called before they are touched.
// Pages for which that node has no room come from another. Returns false if the kernel refuses.
[[nodiscard]] bool prefer_numa_node(const Mapping& mapping, std::uint32_t numa_node);

// Gives a mapping all its pages now, by all cores: a device that pins memory when it is registered would have
// the kernel zero them one after the other. Pages that the kernel does not give stay as they are, and so do
// all on a kernel before 5.14.
void populate(const Mapping& mapping);

// To be called in a forked process, which shares its pages with its parent until one of the two writes. Gives
// it pages of its own with the same bytes at the same addresses, huge pages where the kernel has them, as if
// it had filled the memory itself; otherwise each page would be copied at its first write, in the middle of a
// measurement. Pages that are all 0 stay untouched. Uses all cores. `numa_node` as for prefer_numa_node().
// Error: exhausted.
[[nodiscard]] Result<> own_pages(const Mapping& mapping, std::optional<std::uint32_t> numa_node);

// Zeroed memory in ordinary pages, which the kernel may replace by huge pages. Error: exhausted.
[[nodiscard]] Result<Mapping> zeroed_memory(std::size_t bytes);
// Zeroed memory in reserved huge pages (a whole number of them). nullopt: too few are free, or the memory
// would fill less than half of one.
[[nodiscard]] std::optional<Mapping> huge_memory(std::size_t bytes);

}  // namespace loch::fabric::realtime
