// GET by Nessie's clients (Nessie, 2017, 4.2.1) over tables that server workers write: READs the index word
// of each of the key's candidate slots in order, and the entry of each occupied one whose filter bits match;
// a miss is confirmed by reading the words again. Tables on the client's own node are read by CPU loads under
// the same rules.
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
    Nanos read_at = 0;  // now() before the word was read
  };
  // One row of the index (the table of one server worker): its node, the worker's number on that node, and
  // the row's number among all rows of all nodes.
  struct Where {
    fabric::NodeId node = 0;
    std::uint32_t server = 0;
    std::uint32_t row = 0;
  };
  struct Tables;  // the tables, in the form in which the GET of common/onesided/get.h reads them
  // a READ of an index word or an entry, in the form in which common/onesided/transfer.h executes it
  struct Reading;

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
  // Whether this lane (place for one outstanding operation) has looked up the node's regions over the present
  // connection to the node, which another lane may have made.
  [[nodiscard]] bool is_met(fabric::NodeId node) const {
    return worker_.is_connected_since(node, peers_[node].epoch);
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
  coupled::NodeTables& tables_;  // tables of this client's own node
  NodeReading& node_;
  GetCounts& counts_;
  std::uint64_t lane_;
  std::uint64_t landing_;  // byte offset in the landing region of the lane's buffer for READs of entries
  std::vector<Peer> peers_;
  kv::WordCache::Pin pinned_;  // the cache entry that the last GET's value points into, if any
  fabric::OpStats* stats_ = nullptr;
};

}  // namespace loch::nessie_hy
