// GET as Nessie's clients do it (2017, 4.2.1), over tables that server workers store into: READ the index
// word of each candidate in rank order, and the entry of each that is occupied; a miss is confirmed by
// reading the words again. On the own node by CPU loads, with the same rules.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/coro/task.h"
#include "nessie_hy/store.h"

namespace loch::nessie_hy {

class Reader {
 public:
  Reader(HyStore& store, fabric::Worker& worker, std::uint32_t lane);

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats);

 private:
  enum class Attempt : std::uint8_t { ok, not_found, conflict, expired, link_error };
  enum class Look : std::uint8_t { value, other_key, expired, failed };
  struct WordRead {
    bool ok = false;
    std::uint64_t word = 0;
  };
  struct Found {
    std::uint64_t word = 0;
    Nanos read_at = 0;  // before the word was read
  };
  // Where one row's memory is.
  struct Where {
    fabric::NodeId node = 0;
    std::uint32_t server = 0;
    std::uint32_t row = 0;
  };

  [[nodiscard]] coro::Task<Attempt> get_once(kv::Key key);
  [[nodiscard]] coro::Task<Attempt> verify_miss(cuckoo::KeyHash* hash,
                                                std::array<std::uint64_t, cuckoo::max_functions> seen);
  [[nodiscard]] coro::Task<WordRead> read_word(cuckoo::Place place);
  [[nodiscard]] coro::Task<Look> look_up(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<Look> look_here(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<bool> read_entry(Where where, std::uint32_t entry, std::uint32_t bytes);
  [[nodiscard]] coro::Task<Look> take_value(Where where, Found found);
  [[nodiscard]] std::optional<Look> look_in_cache(Where where, Found found, kv::Key key);
  void fill_cache(Where where, Found found, kv::Key key);
  [[nodiscard]] coro::Task<fabric::WcStatus> read(fabric::WorkRequest request, std::uint64_t last_word,
                                                  bool by_watermark);
  [[nodiscard]] coro::Task<bool> meet(fabric::NodeId node);
  [[nodiscard]] coro::Task<bool> reconnect(fabric::NodeId node);

  [[nodiscard]] Where where(const cuckoo::Place& place) const;
  [[nodiscard]] bool is_here(const Where& where) const { return where.node == worker_.node(); }
  [[nodiscard]] bool is_too_old(Nanos read_at) const {
    return settings_.honours_expiry && worker_.now() - read_at >= settings_.expiry;
  }
  [[nodiscard]] bool is_key(const fabric::Region& region, std::uint64_t at, kv::Key key);
  [[nodiscard]] std::uint64_t cache_word(const Where& where, std::uint64_t word) const;
  [[nodiscard]] std::uint64_t word_at(LaneWord word) const { return (lane_ * lane_words + word) * 8; }
  [[nodiscard]] kv::OpResult result_of(Attempt ended, std::uint32_t retries) const;

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
  std::vector<std::byte> key_;  // of an entry that is looked at
  kv::WordCache::Pin pinned_;   // what value_ points into, if it came from the cache
  kv::ValueView value_;         // of a GET that succeeded
  fabric::OpStats* stats_ = nullptr;
};

}  // namespace loch::nessie_hy
