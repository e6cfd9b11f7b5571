// A region of shm: memory of this process, or shared memory that it has mapped, with the rkey and the access
// rights that requests to it are checked against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "common/fabric/realtime/mapping.h"
#include "common/fabric/region.h"

namespace loch::fabric::shm {

// A peer's region in the address space of this process, as requests to it are checked and executed.
struct MappedRegion {
  enum Rights : std::uint32_t { can_read = 1, can_write = 2, can_atomic = 4 };
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t rkey = 0;
  std::uint32_t rights = 0;
};

class ShmRegion final : public Region {
 public:
  ShmRegion(NodeId node, std::uint32_t id, std::string name, std::uint64_t bytes, std::uint32_t rkey,
            std::uint32_t rights, realtime::Mapping memory)
      : Region(node, id, std::move(name), memory.data(), bytes, Elision{}),
        memory_(std::move(memory)),
        rkey_(rkey),
        rights_(rights) {}
  // The first byte. The region stores all its bytes, which follow this one in memory.
  [[nodiscard]] std::byte* data() const { return memory_.data(); }
  [[nodiscard]] MappedRegion mapped() const { return {memory_.data(), bytes(), rkey_, rights_}; }
  [[nodiscard]] const realtime::Mapping& memory() const { return memory_; }
  [[nodiscard]] RemoteRegion remote() const { return {node(), id(), rkey_, bytes()}; }

 private:
  realtime::Mapping memory_;
  std::uint32_t rkey_, rights_;
};

}  // namespace loch::fabric::shm
