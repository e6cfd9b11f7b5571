// A server worker's work on its table: GET, PUT, DELETE and INSERT as requests ask for them.
//
// Without readers (NessieSD) the worker is alone: it updates entries in place. With readers (NessieHY),
// clients READ words and entries at any instant: a PUT writes a new entry and then stores its word,
// which is its linearization point; the old entry is free E later; a move fills its target before it
// empties its source; no word comes back to a slot (index_word.h); the reply follows the store.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/coupled/tables.h"
#include "common/rpc/write_server.h"

namespace loch::coupled {

class TableServer final : public rpc::Handler {
 public:
  // Server worker `index` of the worker's node.
  TableServer(Tables& tables, fabric::Worker& worker, std::uint32_t index);

  [[nodiscard]] coro::Task<std::uint8_t> handle(rpc::Request request, ReplyPlace reply) override;
  [[nodiscard]] bool has_more() const override { return deferred_.has_value(); }
  [[nodiscard]] coro::Task<void> finish() override;

 private:
  [[nodiscard]] coro::Task<Say> get(ReplyPlace reply);
  [[nodiscard]] coro::Task<Say> put(rpc::Request request, bool only_if_absent);
  [[nodiscard]] coro::Task<Say> remove();
  [[nodiscard]] coro::Task<Say> replace(rpc::Request request, std::uint64_t slot, std::uint64_t now);
  [[nodiscard]] coro::Task<Say> insert(rpc::Request request, std::optional<std::uint64_t> free);

  [[nodiscard]] coro::Task<cuckoo::Table::Lookup> look_up();
  // Frees slots.front() by moving entries along the path.
  [[nodiscard]] coro::Task<void> move_along(std::vector<std::uint64_t> slots);
  [[nodiscard]] coro::Task<void> write_entry(std::uint32_t entry, rpc::Request request);
  [[nodiscard]] coro::Task<void> copy_value(fabric::LocalSlice to, fabric::LocalSlice from);
  // Stores the word that makes a PUT or DELETE visible.
  void commit(std::uint64_t slot, std::uint64_t word);
  void store(std::uint64_t slot, std::uint64_t word);
  void let_go(std::uint32_t entry);
  [[nodiscard]] std::uint64_t occupied(std::uint32_t entry, std::uint64_t filter);
  [[nodiscard]] std::uint64_t emptied();
  [[nodiscard]] bool changes_in_place() const { return !rules_.has_readers || rules_.updates_in_place; }

  struct Deferred {
    std::uint64_t slot, word;
  };

  Tables& tables_;
  const Settings& settings_;
  const Rules& rules_;
  fabric::Worker& worker_;
  NodeTables& node_;
  std::uint32_t index_;
  Row* row_;                    // of the request in hand
  std::vector<std::byte> key_;  // key of the current request
  cuckoo::KeyHash hash_;
  std::optional<Deferred> deferred_;  // mutant
};

// The main of server worker `index`; both outlive the event loop.
[[nodiscard]] coro::Task<void> serve(Tables* tables, fabric::Worker* worker, std::uint32_t index);

}  // namespace loch::coupled
