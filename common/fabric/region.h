// A node's registered memory (Region), slices of it, and the handle by which peers access it (RemoteRegion).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/divisor.h"

namespace loch::fabric {

using NodeId = std::uint16_t;

// Which bytes of a region are stored in memory. In simulation a region of entries of equal size may store
// only the first `keep_head` and the last `keep_tail` bytes of each entry, so that 15 nodes of 20 GB each fit
// in the memory of a laptop. Offsets and lengths are always those of the full region. entry_bytes 0: every
// byte is stored.
struct Elision {
  std::uint64_t entry_bytes = 0;
  std::uint32_t keep_head = 0;
  std::uint32_t keep_tail = 0;
  friend bool operator==(const Elision&, const Elision&) = default;
  [[nodiscard]] bool on() const { return entry_bytes != 0; }
  [[nodiscard]] std::uint64_t kept_per_entry() const { return std::uint64_t{keep_head} + keep_tail; }
  // Bytes of memory for the stored part of `logical` bytes of a region, rounded up to whole entries.
  [[nodiscard]] std::uint64_t physical_bytes(std::uint64_t logical) const {
    return on() ? (logical + entry_bytes - 1) / entry_bytes * kept_per_entry() : logical;
  }
};

// One node's region of registered memory. The fabric owns the memory and its registration; each fabric
// derives a class with the keys (rkey, lkey) that it needs. CPU accesses that may race with RDMA accesses of
// peers use the functions of common/fabric/memory.h.
class Region {
 public:
  Region(NodeId node, std::uint32_t id, std::string name, std::byte* data, std::uint64_t bytes,
         const Elision& elision)
      : data_(data),
        bytes_(bytes),
        elision_(elision),
        entries_(elision.entry_bytes),
        node_(node),
        id_(id),
        name_(std::move(name)) {
    LOCH_CHECK(entries_.covers(bytes), "region {} of {} bytes is too large to be divided", name_, bytes);
  }
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] NodeId node() const { return node_; }
  // number of the region on its node, from 0 in order of registration
  [[nodiscard]] std::uint32_t id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // size in bytes, including the bytes that are not stored (struct Elision)
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const Elision& elision() const { return elision_; }

  // Pointer to the byte at `offset`, which has to be a stored byte. kept() returns how many bytes from there
  // on are contiguous in memory.
  [[nodiscard]] std::byte* at(std::uint64_t offset) const {
    if (!elision_.on()) return data_ + offset;
    const std::uint64_t entry = entries_.quotient(offset);
    const std::uint64_t within = offset - entry * elision_.entry_bytes;
    std::byte* base = data_ + entry * elision_.kept_per_entry();
    if (within < elision_.keep_head) return base + within;
    if (within < elision_.entry_bytes - elision_.keep_tail) [[unlikely]]
      refuse_elided(within);
    return base + elision_.keep_head + (within - (elision_.entry_bytes - elision_.keep_tail));
  }
  // The number of stored, contiguous bytes from `offset` on, at most `want`; 0 in a part that is not stored.
  [[nodiscard]] std::uint64_t kept(std::uint64_t offset, std::uint64_t want) const {
    if (!elision_.on()) return want;
    const std::uint64_t within = entries_.remainder(offset);
    const std::uint64_t tail_at = elision_.entry_bytes - elision_.keep_tail;
    std::uint64_t run = 0;
    if (within < elision_.keep_head)
      run = elision_.keep_head - within;
    else if (within >= tail_at)
      run = elision_.entry_bytes - within;
    return run < want ? run : want;
  }
  // Number of bytes from `offset` to the next stored byte. `offset` has to be in a part that is not stored.
  [[nodiscard]] std::uint64_t elided_run(std::uint64_t offset) const {
    return elision_.entry_bytes - elision_.keep_tail - entries_.remainder(offset);
  }
  // Number of stored bytes before the logical offset `offset`, which is at most bytes().
  [[nodiscard]] std::uint64_t kept_before(std::uint64_t offset) const {
    if (!elision_.on()) return offset;
    const std::uint64_t entry = entries_.quotient(offset);
    const std::uint64_t within = offset - entry * elision_.entry_bytes;
    const std::uint64_t tail_at = elision_.entry_bytes - elision_.keep_tail;
    return entry * elision_.kept_per_entry() + (within < elision_.keep_head ? within : elision_.keep_head) +
           (within > tail_at ? within - tail_at : 0);
  }
  // Whether the two regions store the same bytes of a message that lies at `offset` in this region and at
  // `there` in the region `other`.
  [[nodiscard]] bool keeps_alike(std::uint64_t offset, const Region& other, std::uint64_t there) const {
    if (elision_ != other.elision_) return false;
    return !elision_.on() || entries_.remainder(offset) == entries_.remainder(there);
  }

 private:
  [[noreturn, gnu::cold]] void refuse_elided(std::uint64_t within) const;

  std::byte* data_;
  std::uint64_t bytes_;
  Elision elision_;
  Divisor entries_;  // divides by elision_.entry_bytes
  NodeId node_;
  std::uint32_t id_;
  std::string name_;
};

// A place in a registered region of the node that posts the request; the length is in the work request.
struct LocalSlice {
  Region* region = nullptr;
  std::uint64_t offset = 0;
  [[nodiscard]] std::byte* data() const { return region->at(offset); }
};

// A peer's handle of a region: node, number of the region, rkey and size. A restart of the region's node
// makes the handle invalid, because the region then has a new rkey.
struct RemoteRegion {
  NodeId node = 0;
  std::uint32_t id = 0;
  std::uint32_t rkey = 0;
  std::uint64_t bytes = 0;
};

// A region to register with the NIC: name, size and access rights.
struct RegionSpec {
  std::string name;  // unique on its node
  std::uint64_t bytes = 0;
  // access rights of remote nodes; the fabric may grant more
  bool remote_read = false, remote_write = false, remote_atomic = false;
  Elision elision;  // which bytes the simulator stores; other fabrics store all
  // Size of one of the entries (records, buckets, words of an index) of which the region has more, the more
  // records there are; 0: the region's size does not follow from their number. A simulation of a part of a
  // data set translates addresses of such a region as if the region had the extent of the whole (SimConfig).
  std::uint64_t record_bytes = 0;
};

}  // namespace loch::fabric
