// A server worker executes GET, PUT, DELETE and INSERT requests on the table that it owns.
//
// If only the worker reads its table (NessieSD), it updates entries in place. If clients READ words and
// entries at any instant (NessieHY), a PUT writes a new entry and then stores its index word, which is the
// linearization point; the old entry may be reused after the expiry period E; a move of a key fills the
// target slot before it empties the source; no index word ever returns to a slot (index_word.h); the reply is
// sent after the store. With IndexBy::nic the worker READs the words that a request needs, and stores by CAS;
// no other worker changes its slots, so that a CAS always finds the expected word.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/coupled/nic_index.h"
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
  [[nodiscard]] bool looks_ahead() const override { return !nic_ && !rules_.serves_any_row; }
  void expect(rpc::Request next) override;

 private:
  // Copies the key of a request, whose bytes may be changing, to `key`.
  void copy_key(const rpc::Request& request, std::vector<std::byte>& key) const;
  [[nodiscard]] coro::Task<Say> get(ReplyPlace reply);
  [[nodiscard]] coro::Task<Say> put(rpc::Request request, bool only_if_absent);
  [[nodiscard]] coro::Task<Say> remove();
  [[nodiscard]] coro::Task<Say> replace(rpc::Request request, std::uint64_t slot, std::uint64_t now);
  [[nodiscard]] coro::Task<Say> insert(rpc::Request request, std::optional<std::uint64_t> free);

  // CPU time of a look-up of the request's key.
  [[nodiscard]] Nanos cost_of(const cuckoo::Table::Lookup& found) const;
  // Looks the request's key up in the worker's table (row); nullopt if the index cannot be read through the
  // NIC (IndexBy::nic).
  [[nodiscard]] coro::Task<std::optional<cuckoo::Table::Lookup>> look_up();
  // The words of a look-up, READ through the NIC. Not inlined, so that its coroutine's frame is no part of
  // handle()'s frame, which has to fit into the largest size class of coro::FramePool.
  [[nodiscard, gnu::noinline]] coro::Task<std::optional<cuckoo::Table::Lookup>> look_up_by_nic();
  // Frees slots.front() by moving the keys along the path `slots`, the last one first. Returns false if the
  // outcome of a store cannot be learned.
  [[nodiscard]] coro::Task<bool> move_along(std::vector<std::uint64_t> slots);
  // Writes an entry and stores the word that names it. Returns false if it cannot learn whether the word is
  // stored.
  [[nodiscard]] coro::Task<bool> write_and_commit(std::uint32_t entry, rpc::Request request,
                                                  std::uint64_t slot, std::uint64_t word);
  [[nodiscard]] coro::Task<void> write_entry(std::uint32_t entry, rpc::Request request);
  // A copy of a value in two halves, with CPU time after each, so that a reader that does not check the bytes
  // it reads can meet a torn value (half old, half new).
  struct ValueCopy {
    fabric::LocalSlice to, from;
    std::uint64_t kept = 0, half = 0;  // bytes of the value that memory stores, and bytes of the first half
    Nanos half_cost = 0;
    void copy_first() const;
    void copy_rest() const;
  };
  [[nodiscard]] ValueCopy value_copy(fabric::LocalSlice to, fabric::LocalSlice from) const;
  [[nodiscard]] coro::Task<void> copy_value(fabric::LocalSlice to, fabric::LocalSlice from);
  // Stores the index word that makes a PUT or DELETE visible. As store(), returns false if it cannot learn
  // whether the word is stored.
  [[nodiscard]] coro::Task<bool> commit(std::uint64_t slot, std::uint64_t word);
  [[nodiscard]] coro::Task<bool> store(std::uint64_t slot, std::uint64_t word);
  [[nodiscard, gnu::noinline]] coro::Task<bool> store_by_nic(std::uint64_t slot, std::uint64_t word);
  [[nodiscard, gnu::noinline]] coro::Task<std::optional<std::uint64_t>> word_by_nic(std::uint64_t slot);
  void let_go(std::uint32_t entry);
  [[nodiscard]] std::uint64_t occupied(std::uint32_t entry, std::uint64_t filter);
  [[nodiscard]] std::uint64_t emptied();
  [[nodiscard]] bool changes_in_place() const { return !rules_.has_readers || rules_.updates_in_place; }

  // The store of an index word.
  struct Store {
    std::uint64_t slot, word;
  };

  Tables& tables_;
  const Settings& settings_;
  const Rules& rules_;
  fabric::Worker& worker_;
  NodeTables& node_;
  std::uint32_t index_;
  std::uint32_t first_row_;  // number of the first table (row) of the worker's node
  Row* row_;                 // table (row) of the server worker that owns the current request's key
  // A request's key with its hashes, which refer to the key.
  struct Asked {
    std::vector<std::byte> key;
    cuckoo::KeyHash hash;
  };
  Asked asked_[2];
  Asked* now_ = &asked_[0];   // of the current request
  Asked* next_ = &asked_[1];  // of the request that is expected next, if is_expecting_
  bool is_expecting_ = false;
  // in the known-bad variant that replies before it stores the index word: the store still to be done
  std::optional<Store> deferred_;
  std::optional<NicIndex> nic_;  // set if index words are accessed through the NIC (IndexBy::nic)
  // If index words are accessed through the NIC (IndexBy::nic): the slots that the current request has READ
  // or changed, and their words.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen_;
};

// Main coroutine of server worker `index`. `tables` and `worker` must outlive the event loop.
[[nodiscard]] coro::Task<void> serve(Tables* tables, fabric::Worker* worker, std::uint32_t index);

}  // namespace loch::coupled
