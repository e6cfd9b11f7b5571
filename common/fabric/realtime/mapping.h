// A mapped piece of memory, and zeroed memory of this process for regions.
#pragma once

#include <cstddef>
#include <optional>

#include "common/base/result.h"

namespace loch::fabric::realtime {

// Pages from mmap; unmapped at the end of its life.
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

// Zeroed memory of ordinary pages, which the kernel may make huge by itself. Error: exhausted.
[[nodiscard]] Result<Mapping> zeroed_memory(std::size_t bytes);
// Zeroed memory in huge pages that were set aside, of whole huge pages; none: there are too few of them, or
// the memory would fill less than half of one.
[[nodiscard]] std::optional<Mapping> huge_memory(std::size_t bytes);

}  // namespace loch::fabric::realtime
