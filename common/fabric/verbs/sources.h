// Who sent a message: from the receiving queue pair (RC, UC) or the sending one (UD) to node and
// worker. Filled by the connector, read by the worker's thread without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/fabric/verbs/gid.h"

namespace loch::fabric::verbs {

struct Source {
  NodeId node = 0;
  std::uint16_t worker = 0;
};

// An open-addressed table of words: 1 | queue pair number (24) | node (16) | worker (16). Entries are
// added or rewritten, never removed; it is made large enough for all that may connect.
class Sources {
 public:
  Sources() : words_(2) {}
  // Forgets everything; not while the worker runs.
  void reserve(std::size_t ends);
  // False when it is full.
  [[nodiscard]] bool add(std::uint32_t qpn, Source source);
  [[nodiscard]] std::optional<Source> find(std::uint32_t qpn) const;

 private:
  [[nodiscard]] std::size_t start(std::uint32_t qpn) const {
    return (qpn * 0x9E3779B1u) & (words_.size() - 1);
  }
  std::vector<std::atomic<std::uint64_t>> words_;  // a power of two
};

// UD senders of the run. A queue pair number alone may be that of several machines: then the address
// in the GRH decides.
class DatagramSources {
 public:
  struct Sender {
    std::uint32_t qpn = 0;
    std::uint16_t lid = 0;
    Gid gid{};
    Source source;
  };
  // Replaces all; not while a worker reads.
  void set(std::vector<Sender> senders);
  // `grh`: the 40 bytes before the payload, or null where there are none.
  [[nodiscard]] std::optional<Source> find(std::uint32_t qpn, std::uint16_t lid, const std::byte* grh) const;

 private:
  std::vector<Sender> senders_;  // by qpn
};

}  // namespace loch::fabric::verbs
