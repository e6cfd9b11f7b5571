// A tiny store for the explorer's tests. Each key has one index word, which names an immutable value that a
// PUT wrote before it changed the word. Some variants are known to be wrong.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/memory.h"
#include "common/kv/protocol.h"

namespace loch::explore::testing {

// Variants. correct: a DELETE is READ and CAS; racy: READ and WRITE (two DELETEs may both succeed); locked:
// PUTs hold a lock that a dead client never releases; sleepy: correct, with a background coroutine that wakes
// and does nothing. Three variants overwrite a two-line value in place, for a single writer: in-place: a GET
// trusts what it READs; checked: the value has a checksum, and a GET READs up to three times until it
// matches; once: a GET with a wrong checksum waits for an event that never comes.
class ToyStore final : public kv::Store {
 public:
  ToyStore(const kv::DeployConfig& config, std::string variant)
      : config_(config), variant_(std::move(variant)) {}

  static constexpr std::uint64_t slots = 4, values = 64, value_bytes = 32, cell_bytes = 128;

  Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    LOCH_ASSIGN(auto* local, fabric.register_region(node, {.name = "local", .bytes = 8 + cell_bytes}));
    local_[node] = local;
    if (node != 0) return {};
    LOCH_ASSIGN(words_, fabric.register_region(0, {.name = "words",
                                                   .bytes = slots * 16,
                                                   .remote_read = true,
                                                   .remote_write = true,
                                                   .remote_atomic = true}));
    LOCH_ASSIGN(
        values_,
        fabric.register_region(
            0, {.name = "values", .bytes = values * value_bytes, .remote_read = true, .remote_write = true}));
    LOCH_ASSIGN(
        cells_,
        fabric.register_region(
            0, {.name = "cells", .bytes = slots * cell_bytes, .remote_read = true, .remote_write = true}));
    return {};
  }
  Result<> connect(fabric::Fabric& fabric) override {
    LOCH_ASSIGN(words_at_, fabric.lookup(0, "words"));
    LOCH_ASSIGN(values_at_, fabric.lookup(0, "values"));
    LOCH_ASSIGN(cells_at_, fabric.lookup(0, "cells"));
    return {};
  }
  Result<> preload(fabric::Fabric& /*fabric*/, const kv::Dataset& data) override {
    for (std::uint64_t i = 0; i < data.count(); ++i) {
      std::vector<std::byte> key(config_.key_size);
      data.key(i, key.data());
      if (is_in_place()) {
        std::byte* const cell = cells_->at(cell_of(key.data()));
        data.value(i, cell, config_.value_size);
        seal(cell);
        continue;
      }
      data.value(i, values_->at((values - 1 - i) * value_bytes), value_bytes);
      fabric::store_word_release(words_->at(slot_of(key.data())), values - 1 - i);
    }
    return {};
  }
  coro::Task<void> serve(fabric::Worker& /*worker*/, std::uint32_t /*index*/) override { co_return; }
  std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override;
  [[nodiscard]] bool has_background() const override { return variant_ == "sleepy"; }
  coro::Task<void> background(fabric::Worker& worker, const bool* done) override {
    while (!*done) co_await worker.sleep_until(worker.now() + 1'000);
  }
  [[nodiscard]] bool is_in_place() const {
    return variant_ == "in-place" || variant_ == "checked" || variant_ == "once";
  }
  static std::uint64_t cell_of(const std::byte* key) { return slot_of(key) / 16 * cell_bytes; }
  [[nodiscard]] std::uint64_t check_of(const std::byte* cell) const {
    std::uint64_t sum = 1;
    for (std::uint32_t i = 0; i < config_.value_size; ++i)
      sum = sum * 0x9E37'79B9'7F4A'7C15 + std::to_integer<std::uint64_t>(cell[i]);
    return sum;
  }
  void seal(std::byte* cell) const {
    const std::uint64_t check = check_of(cell);
    std::memcpy(cell + config_.value_size, &check, sizeof check);
  }
  [[nodiscard]] bool is_whole(const std::byte* cell) const {
    std::uint64_t check = 0;
    std::memcpy(&check, cell + config_.value_size, sizeof check);
    return variant_ == "in-place" || check == check_of(cell);
  }
  // Offset of the key's index word, which is followed by the key's lock.
  static std::uint64_t slot_of(const std::byte* key) {
    std::uint32_t number = 0;
    std::memcpy(&number, key + 4, sizeof number);
    return number % slots * 16;
  }

 private:
  friend class ToyClient;
  kv::DeployConfig config_;
  std::string variant_;
  std::map<fabric::NodeId, fabric::Region*> local_;
  fabric::Region* words_ = nullptr;
  fabric::Region* values_ = nullptr;
  fabric::Region* cells_ = nullptr;
  fabric::RemoteRegion words_at_, values_at_, cells_at_;
};

class ToyClient final : public kv::Client {
 public:
  ToyClient(ToyStore& store, fabric::Worker& worker)
      : store_(store), worker_(worker), local_(store.local_.at(worker.node())) {}

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* /*stats*/) override {
    const std::uint64_t at = ToyStore::slot_of(key.data);
    co_await connect();
    if (store_.is_in_place()) co_return co_await get_in_place(ToyStore::cell_of(key.data));
    if (store_.variant_ == "locked") {
      const fabric::Completion lock = co_await worker_.read(store_.words_at_, at + 8, {local_, 0}, 8);
      if (!lock.ok()) co_return failed();
      if (fabric::load_word(local_->at(0)) != 0) co_return answer(kv::OpStatus::conflict);
    }
    const fabric::Completion word = co_await worker_.read(store_.words_at_, at, {local_, 0}, 8);
    if (!word.ok()) co_return failed();
    const std::uint64_t named = fabric::load_word(local_->at(0));
    if (named == 0) co_return answer(kv::OpStatus::not_found);
    const fabric::Completion value = co_await worker_.read(store_.values_at_, named * ToyStore::value_bytes,
                                                           {local_, 8}, ToyStore::value_bytes);
    if (!value.ok()) co_return failed();
    kv::OpResult result;
    result.value = {local_->at(8), ToyStore::value_bytes, ToyStore::value_bytes};
    co_return result;
  }

  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* /*stats*/) override {
    const std::uint64_t at = ToyStore::slot_of(key.data);
    co_await connect();
    if (store_.is_in_place()) {
      const std::uint32_t size = store_.config_.value_size;
      std::memcpy(local_->at(8), value.data, size);
      store_.seal(local_->at(8));
      const fabric::Completion stored =
          co_await worker_.write(store_.cells_at_, ToyStore::cell_of(key.data), {local_, 8}, size + 8);
      if (!stored.ok()) co_return unknown();
      co_return answer(kv::OpStatus::ok);
    }
    const std::uint64_t own = 1 + worker_.node() * 8U + puts_++;
    std::memcpy(local_->at(8), value.data, ToyStore::value_bytes);
    const fabric::Completion written = co_await worker_.write(store_.values_at_, own * ToyStore::value_bytes,
                                                              {local_, 8}, ToyStore::value_bytes);
    if (!written.ok()) co_return failed();
    const bool is_locked = store_.variant_ == "locked";
    if (is_locked) {
      const fabric::Completion taken = co_await worker_.cas(store_.words_at_, at + 8, 0, 1);
      if (!taken.ok() || taken.result != 0) co_return answer(kv::OpStatus::conflict);
    }
    fabric::store_word_release(local_->at(0), own);
    const fabric::Completion linked = co_await worker_.write(store_.words_at_, at, {local_, 0}, 8);
    if (!linked.ok()) co_return unknown();
    if (is_locked) {
      fabric::store_word_release(local_->at(0), 0);
      const fabric::Completion freed = co_await worker_.write(store_.words_at_, at + 8, {local_, 0}, 8);
      if (!freed.ok()) co_return unknown();
    }
    co_return answer(kv::OpStatus::ok);
  }

  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* /*stats*/) override {
    const std::uint64_t at = ToyStore::slot_of(key.data);
    co_await connect();
    for (;;) {
      const fabric::Completion word = co_await worker_.read(store_.words_at_, at, {local_, 0}, 8);
      if (!word.ok()) co_return failed();
      const std::uint64_t named = fabric::load_word(local_->at(0));
      if (named == 0) co_return answer(kv::OpStatus::not_found);
      if (store_.variant_ == "racy") {
        fabric::store_word_release(local_->at(0), 0);
        const fabric::Completion emptied = co_await worker_.write(store_.words_at_, at, {local_, 0}, 8);
        if (!emptied.ok()) co_return unknown();
        co_return answer(kv::OpStatus::ok);
      }
      const fabric::Completion swapped = co_await worker_.cas(store_.words_at_, at, named, 0);
      if (!swapped.ok()) co_return unknown();
      if (swapped.result == named) co_return answer(kv::OpStatus::ok);
    }
  }

 private:
  coro::Task<kv::OpResult> get_in_place(std::uint64_t at) {
    const std::uint32_t size = store_.config_.value_size;
    constexpr int most_tries = 3;
    for (int i = 0; i < most_tries; ++i) {
      const fabric::Completion read = co_await worker_.read(store_.cells_at_, at, {local_, 8}, size + 8);
      if (!read.ok()) co_return failed();
      if (store_.is_whole(local_->at(8))) {
        kv::OpResult result;
        result.value = {local_->at(8), size, size};
        co_return result;
      }
      if (store_.variant_ != "once") continue;
      const fabric::WatchWord never{.region = local_, .offset = 0, .value = 1};
      const fabric::WatchOutcome outcome = co_await worker_.watch(never, worker_.now() + 1'000);
      LOCH_CHECK(outcome == fabric::WatchOutcome::timed_out, "nobody writes there");
      co_return answer(kv::OpStatus::timeout);
    }
    co_return answer(kv::OpStatus::conflict);
  }

  coro::Task<void> connect() {
    if (worker_.connected(0)) co_return;
    const bool is_back = co_await worker_.reconnect(0, fabric::forever);
    LOCH_CHECK(is_back, "nothing is cut off");
  }
  static kv::OpResult answer(kv::OpStatus status) {
    kv::OpResult result;
    result.status = status;
    return result;
  }
  static kv::OpResult failed() { return answer(kv::OpStatus::error); }
  static kv::OpResult unknown() {
    kv::OpResult result = answer(kv::OpStatus::error);
    result.effect = kv::Effect::unknown;
    return result;
  }

  ToyStore& store_;
  fabric::Worker& worker_;
  fabric::Region* local_;
  std::uint64_t puts_ = 0;
};

inline std::unique_ptr<kv::Client> ToyStore::client(fabric::Worker& worker, std::uint32_t /*slot*/) {
  return std::make_unique<ToyClient>(*this, worker);
}

class ToyModule final : public kv::Module {
 public:
  [[nodiscard]] std::string_view name() const override { return "toy"; }
  [[nodiscard]] std::string_view summary() const override { return "a store for tests"; }
  [[nodiscard]] std::string_view paper() const override { return "none"; }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    return {{"toy.variant",
             kv::OptionType::choice,
             "correct",
             "which step is broken",
             {"correct", "racy", "locked", "sleepy", "in-place", "checked", "once"}}};
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const override {
    return kv::Consistency::linearizable;
  }
  [[nodiscard]] kv::Promise promise(kv::Loss /*loss*/, const kv::Options& /*options*/) const override {
    return kv::Promise::serves;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    return {.rc = true, .atomic_scope = fabric::AtomicScope::nic};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view /*mutant*/) const override {
    return std::make_unique<ToyStore>(config, options.choice("toy.variant"));
  }
};

}  // namespace loch::explore::testing
