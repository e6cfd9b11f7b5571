// A server worker executes GET, PUT, DELETE and INSERT requests on the table that it owns.
//
// If only the worker reads its table (NessieSD), it updates entries in place. If clients READ words and
// entries at any instant (NessieHY), a PUT writes a new entry and then stores its index word, which is
// the linearization point; the old entry may be reused after the expiry period E; a move of a key fills
// the target slot before it empties the source; no index word ever returns to a slot (index_word.h); the
// reply is sent after the store.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/coupled/tables.h"
#include "common/rpc/write_server.h"

namespace loch::coupled {

class TableServer final : public rpc::Handler {
 public:
  // Makes the handler of server worker `index` on the worker's node.
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
  // Frees slots.front() by moving the keys along the path `slots`, the last one first.
  [[nodiscard]] coro::Task<void> move_along(std::vector<std::uint64_t> slots);
  [[nodiscard]] coro::Task<void> write_entry(std::uint32_t entry, rpc::Request request);
  [[nodiscard]] coro::Task<void> copy_value(fabric::LocalSlice to, fabric::LocalSlice from);
  // Stores the index word that makes a PUT or DELETE visible.
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
  Row* row_;                    // table (row) of the server worker that owns the current request's key
  std::vector<std::byte> key_;  // key of the current request
  cuckoo::KeyHash hash_;
  // the change of the table that is still to be made, in the known-bad variant that replies before it makes
  // the change
  std::optional<Deferred> deferred_;
};

// Main coroutine of server worker `index`. `tables` and `worker` must outlive the event loop.
[[nodiscard]] coro::Task<void> serve(Tables* tables, fabric::Worker* worker, std::uint32_t index);

}  // namespace loch::coupled
