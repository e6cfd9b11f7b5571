// GET as Nessie's clients do it (2017, 4.2.1), over tables that server workers store into: READ the index
// word of each candidate in rank order, and the entry of each that is occupied; a miss is confirmed by
// reading the words again. On the own node by CPU loads, with the same rules.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/coro/task.h"
#include "common/onesided/get.h"
#include "nessie_hy/store.h"

namespace loch::nessie_hy {

class Reader {
 public:
  Reader(HyStore& store, fabric::Worker& worker, std::uint32_t lane);

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats);

 private:
  using Look = onesided::Look;
  using Looked = onesided::Looked;
  struct Found {
    std::uint64_t word = 0;
    Nanos read_at = 0;  // before the word was read
  };
  // The location of one row's memory.
  struct Where {
    fabric::NodeId node = 0;
    std::uint32_t server = 0;
    std::uint32_t row = 0;
  };
  struct Tables;   // the passes of common/onesided/get.h over these tables
  struct Reading;  // READs of words and entries (common/onesided/transfer.h)

  [[nodiscard]] coro::Task<onesided::WordRead> read_word(cuckoo::Place place);
  [[nodiscard]] coro::Task<Looked> look_up(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<Looked> look_at_entry(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<Looked> look_here(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<bool> read_entry(Where where, std::uint32_t entry, std::uint32_t bytes);
  [[nodiscard]] coro::Task<bool> read(Reading reading);
  [[nodiscard]] coro::Task<Looked> take_value(Where where, Found found);
  [[nodiscard]] std::optional<Looked> look_in_cache(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<bool> reconnect(fabric::NodeId node);

  [[nodiscard]] Where where(const cuckoo::Place& place) const;
  [[nodiscard]] bool is_here(const Where& where) const { return where.node == worker_.node(); }
  // Whether this lane knows the node's current connection; another lane may have reconnected meanwhile.
  [[nodiscard]] bool is_met(fabric::NodeId node) const {
    return worker_.connected(node) && worker_.epoch(node) == peers_[node].epoch;
  }
  [[nodiscard]] bool is_too_old(Nanos read_at) const {
    return settings_.honours_expiry && worker_.now() - read_at >= settings_.expiry;
  }
  [[nodiscard]] kv::ValueView landed_value() const;
  [[nodiscard]] std::uint64_t cache_word(const Where& where, std::uint64_t word) const;
  [[nodiscard]] std::uint64_t word_at(LaneWord word) const { return (lane_ * lane_words + word) * 8; }

  HyStore& store_;
  const Settings& settings_;
  const coupled::Settings& table_;
  fabric::Worker& worker_;
  coupled::NodeTables& tables_;  // of this node
  NodeReading& node_;
  GetCounts& counts_;
  std::uint64_t lane_;
  std::uint64_t landing_;  // offset of the lane's entry
  std::vector<Peer> peers_;
  kv::WordCache::Pin pinned_;  // what the value of a GET points into, if it came from the cache
  fabric::OpStats* stats_ = nullptr;
};

}  // namespace loch::nessie_hy
