// Tells who sent a message: maps the receiving queue pair (RC, UC) or the sending one (UD) to a node and
// worker. The connector fills the tables; the worker's thread reads them without a lock.
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

// A worker's open-addressed hash table from receiving queue pairs to their senders. An entry is a 64-bit
// word: bit 56 set, queue pair number (24 bits), node (16), worker (16). Entries are added or rewritten,
// never removed; reserve() makes the table large enough for all queue pairs that may end at the worker.
class Sources {
 public:
  Sources() : words_(2) {}
  // Empties the table and gives it room for `ends` queue pairs. Must not be called while the worker runs.
  void reserve(std::size_t ends);
  // Adds or rewrites the entry of queue pair `qpn`. False if the table is full.
  [[nodiscard]] bool add(std::uint32_t qpn, Source source);
  [[nodiscard]] std::optional<Source> find(std::uint32_t qpn) const;

 private:
  [[nodiscard]] std::size_t start(std::uint32_t qpn) const {
    return (qpn * 0x9E3779B1u) & (words_.size() - 1);
  }
  std::vector<std::atomic<std::uint64_t>> words_;  // the size is a power of two
};

// The UD queue pairs that may send datagrams during the run. Several machines may use the same queue pair
// number; then the sender's address in the global routing header (GRH) decides.
class DatagramSources {
 public:
  struct Sender {
    std::uint32_t qpn = 0;
    std::uint16_t lid = 0;
    Gid gid{};
    Source source;
  };
  // Replaces the whole table. Must not be called while a worker reads it.
  void set(std::vector<Sender> senders);
  // The sender of a datagram. `grh`: the 40 bytes before the payload, or null if the device gave none.
  [[nodiscard]] std::optional<Source> find(std::uint32_t qpn, std::uint16_t lid, const std::byte* grh) const;

 private:
  std::vector<Sender> senders_;  // sorted by queue pair number
};

}  // namespace loch::fabric::verbs
