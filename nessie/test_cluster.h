// A small Nessie for tests, on the step fabric, which executes one work request at a time on the test's
// command. Keys and values are given by number, keys can be made to collide, and each worker runs one
// operation at a time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/fabric/memory.h"
#include "common/fabric/step/step.h"
#include "nessie/client.h"
#include "nessie/module.h"

namespace loch::nessie::testing {

using fabric::step::StepFabric;

constexpr std::uint32_t key_size = 128;
using KeyBytes = std::array<std::byte, key_size>;

inline KeyBytes key_bytes(std::uint64_t number) {
  KeyBytes key{};
  std::memcpy(key.data() + 64, &number, sizeof number);
  return key;
}

class NumberedData final : public kv::Dataset {
 public:
  explicit NumberedData(std::uint64_t count) : count_(count) {}
  [[nodiscard]] std::uint64_t count() const override { return count_; }
  void key(std::uint64_t i, std::byte* out) const override {
    const KeyBytes key = key_bytes(i);
    std::memcpy(out, key.data(), key.size());
  }
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override {
    fill(1000 + i, out, bytes);
  }
  static void fill(std::uint64_t number, std::byte* out, std::uint32_t bytes) {
    std::memset(out, static_cast<int>(number & 0xFF), bytes);
    std::memcpy(out, &number, std::min<std::size_t>(bytes, sizeof number));
  }

 private:
  std::uint64_t count_;
};

struct Outcome {
  kv::OpResult result;
  Attempt moved = Attempt::ok;         // result of a MIGRATE (move of a key)
  std::optional<std::uint64_t> value;  // identifies the value that a GET found
  bool is_whole = false;               // whether each byte of the GET's value is the expected one
  fabric::OpStats stats;
  std::map<std::string, std::uint64_t> scrubbed;
  bool is_complete = true;
};

class TestCluster {
 public:
  struct Shape {
    std::uint32_t nodes = 3;
    std::uint32_t clients = 1;
    std::uint64_t keys = 0;
    std::uint64_t max_keys = 64;
    std::uint32_t value_size = 256;
    std::uint32_t kept = ~0U;
    std::map<std::string, std::string> options;
    std::string mutant;
    std::uint32_t server_nodes = 0;  // with nessie.placement remote; workers are of the other nodes
  };
  explicit TestCluster(const Shape& shape) : shape_(shape), fabric_(shape.nodes) {
    const auto module = make_module();
    kv::Options options(module->options());
    for (const auto& [key, value] : shape.options) {
      const auto set = options.set(key, value);
      EXPECT_TRUE(set.has_value()) << set.error().message;
    }
    kv::DeployConfig config;
    config.nodes = shape.nodes;
    config.server_nodes = shape.server_nodes;
    config.client_workers = shape.clients;
    config.key_size = key_size;
    config.value_size = shape.value_size;
    config.keys = shape.keys;
    config.max_keys = shape.max_keys;
    config.kept_value_bytes = std::min(shape.kept, shape.value_size);
    auto deployed = module->deploy(config, options, shape.mutant);
    EXPECT_TRUE(deployed.has_value()) << deployed.error().message;
    store_.reset(static_cast<NessieStore*>(deployed->release()));
    for (fabric::NodeId node = 0; node < shape.nodes; ++node) {
      EXPECT_TRUE(store_->setup_node(fabric_, node).has_value());
      if (!config.drives(node)) continue;
      for (std::uint16_t i = 0; i < shape.clients; ++i) {
        workers_.push_back(*fabric_.add_worker({.node = node, .index = i}));
      }
    }
    EXPECT_TRUE(store_->connect(fabric_).has_value());
    const NumberedData data(shape.keys);
    EXPECT_TRUE(store_->preload(fabric_, data).has_value());
    for (fabric::Worker* worker : workers_) {
      clients_.push_back(store_->client(*worker, 0));
      values_.emplace_back(shape.value_size);
    }
    outcomes_.resize(workers_.size());
    keys_.resize(workers_.size());
  }

  [[nodiscard]] StepFabric& fabric() { return fabric_; }
  [[nodiscard]] NessieStore& store() { return *store_; }
  [[nodiscard]] fabric::Worker& worker(std::uint32_t w) { return *workers_[w]; }
  [[nodiscard]] const Settings& settings() const { return store_->settings(); }
  [[nodiscard]] double counter(const std::string& name) const { return store_->counters().at(name); }

  // ---- functions that begin an operation on worker w, which the test then steps or finishes
  void begin_get(std::uint32_t w, std::uint64_t key) { begin(w, key, run_get(this, w)); }
  void begin_put(std::uint32_t w, std::uint64_t key, std::uint64_t value) {
    NumberedData::fill(value, values_[w].data(), shape_.value_size);
    begin(w, key, run_put(this, w));
  }
  void begin_remove(std::uint32_t w, std::uint64_t key) { begin(w, key, run_remove(this, w)); }
  void begin_migrate(std::uint32_t w, cuckoo::Place source) { begin(w, 0, run_migrate(this, w, source)); }
  bool step(std::uint32_t w, std::uint32_t times = 1) {
    for (std::uint32_t i = 0; i < times; ++i) {
      if (!fabric_.step(*workers_[w], false)) return false;
    }
    return true;
  }
  // Executes requests of worker w up to and including its `count`-th CAS.
  void step_through_cas(std::uint32_t w, std::uint32_t count) {
    while (count > 0) {
      const fabric::WorkRequest* next = fabric_.next(*workers_[w]);
      ASSERT_NE(next, nullptr) << "the operation ended or waits";
      const bool is_cas = next->verb == fabric::Verb::cas;
      ASSERT_TRUE(step(w));
      if (is_cas) --count;
    }
  }
  // Executes requests of worker w until it waits for a timer or has ended.
  void step_until_waiting(std::uint32_t w) {
    while (step(w)) {
    }
  }
  const Outcome& finish(std::uint32_t w) {
    fabric_.finish(*workers_[w]);
    return outcomes_[w];
  }
  void kill(std::uint32_t w) { fabric_.kill(*workers_[w]); }

  // ---- functions that execute a whole operation on worker w
  Outcome get(std::uint32_t w, std::uint64_t key) {
    begin_get(w, key);
    return finish(w);
  }
  Outcome put(std::uint32_t w, std::uint64_t key, std::uint64_t value) {
    begin_put(w, key, value);
    return finish(w);
  }
  Outcome remove(std::uint32_t w, std::uint64_t key) {
    begin_remove(w, key);
    return finish(w);
  }
  Outcome migrate(std::uint32_t w, cuckoo::Place source) {
    begin_migrate(w, source);
    return finish(w);
  }
  // Repairs (scrubs) after the death of all client workers of the nodes `dead`.
  Outcome scrub(std::uint32_t w, const std::vector<fabric::NodeId>& dead) {
    std::vector<kv::ClientId> clients;
    for (const fabric::NodeId node : dead) {
      for (std::uint32_t i = 0; i < settings().config.client_workers; ++i)
        clients.push_back({node, static_cast<std::uint16_t>(i)});
    }
    begin(w, 0, run_scrub(this, w, std::move(clients)));
    return finish(w);
  }
  Outcome scrub_clients(std::uint32_t w, std::vector<kv::ClientId> dead) {
    begin(w, 0, run_scrub(this, w, std::move(dead)));
    return finish(w);
  }
  void begin_scrub(std::uint32_t w, std::vector<kv::ClientId> dead) {
    begin(w, 0, run_scrub(this, w, std::move(dead)));
  }
  Outcome declare_lost(std::uint32_t w, std::vector<fabric::NodeId> lost) {
    begin(w, 0, run_declare(this, w, std::move(lost)));
    return finish(w);
  }
  void begin_declare(std::uint32_t w, std::vector<fabric::NodeId> lost) {
    begin(w, 0, run_declare(this, w, std::move(lost)));
  }
  // Starts the background work that a worker does at the end of its run; the test then executes it request by
  // request.
  void begin_flush(std::uint32_t w) {
    done_ = true;
    fabric_.start(*workers_[w], store_->background(*workers_[w], &done_));
  }
  // Executes all background work that a worker does at the end of its run, such as marking entries as having
  // left the index.
  void flush(std::uint32_t w) {
    done_ = true;
    fabric_.start(*workers_[w], store_->background(*workers_[w], &done_));
    fabric_.finish(*workers_[w]);
  }

  // ---- where index slots and entries lie
  [[nodiscard]] cuckoo::Place candidate(std::uint64_t key, std::uint32_t rank) const {
    const KeyBytes bytes = key_bytes(key);
    cuckoo::KeyHash hash = settings().family.hash(bytes);
    return hash.candidate(rank);
  }
  [[nodiscard]] Word word(cuckoo::Place place) {
    fabric::Region* index = fabric_.direct(static_cast<fabric::NodeId>(place.node), index_region);
    return fabric::load_word(index->at(place.slot * 8));
  }
  // A new key whose first candidate is `place` and whose other candidates are not in `avoid`.
  [[nodiscard]] std::uint64_t key_at(cuckoo::Place place, std::vector<cuckoo::Place> avoid = {}) {
    for (;;) {
      const std::uint64_t key = next_key_++;
      if (candidate(key, 0) != place) continue;
      bool is_clear = true;
      for (std::uint32_t i = 1; i < settings().functions(); ++i) {
        for (const cuckoo::Place& bad : avoid) is_clear = is_clear && candidate(key, i) != bad;
      }
      if (is_clear) return key;
    }
  }
  // The occupied words of the whole index.
  [[nodiscard]] std::vector<Word> occupied() {
    std::vector<Word> words;
    for (std::uint32_t node = 0; node < settings().config.serving_nodes(); ++node) {
      for (std::uint64_t slot = 0; slot < settings().slots_per_node; ++slot) {
        const Word each = word({node, slot});
        if (!settings().format.is_empty(each)) words.push_back(each);
      }
    }
    return words;
  }
  [[nodiscard]] EntryMeta meta(const EntryId& id) {
    return EntryMeta::unpack(data_word(id, settings().entry.meta_at()));
  }
  [[nodiscard]] Word data_word(const EntryId& id, std::uint32_t within) {
    fabric::Region* data = fabric_.direct(static_cast<fabric::NodeId>(id.node), data_region);
    return fabric::load_word(data->at(id.index * settings().entry.stride() + within));
  }

 private:
  void begin(std::uint32_t w, std::uint64_t key, coro::Task<void> task) {
    keys_[w] = key_bytes(key);
    outcomes_[w] = {};
    fabric_.start(*workers_[w], std::move(task));
  }
  [[nodiscard]] kv::Key key(std::uint32_t w) const { return {keys_[w].data(), key_size}; }
  [[nodiscard]] NessieClient& client(std::uint32_t w) { return static_cast<NessieClient&>(*clients_[w]); }

  static coro::Task<void> run_get(TestCluster* self, std::uint32_t w) {
    Outcome& out = self->outcomes_[w];
    const kv::OpResult result = co_await self->clients_[w]->get(self->key(w), &out.stats);
    out.result = result;
    if (out.result.status != kv::OpStatus::ok) co_return;
    std::uint64_t number = 0;
    std::memcpy(&number, out.result.value.data, sizeof number);
    out.value = number;
    std::vector<std::byte> expected(out.result.value.kept);
    NumberedData::fill(number, expected.data(), out.result.value.kept);
    out.is_whole = std::memcmp(expected.data(), out.result.value.data, expected.size()) == 0;
  }
  static coro::Task<void> run_put(TestCluster* self, std::uint32_t w) {
    Outcome& out = self->outcomes_[w];
    const kv::ValueView value{self->values_[w].data(), self->shape_.value_size,
                              std::min(self->shape_.kept, self->shape_.value_size)};
    const kv::OpResult result = co_await self->clients_[w]->put(self->key(w), value, &out.stats);
    out.result = result;
  }
  static coro::Task<void> run_remove(TestCluster* self, std::uint32_t w) {
    Outcome& out = self->outcomes_[w];
    const kv::OpResult result = co_await self->clients_[w]->remove(self->key(w), &out.stats);
    out.result = result;
  }
  static coro::Task<void> run_migrate(TestCluster* self, std::uint32_t w, cuckoo::Place source) {
    Outcome& out = self->outcomes_[w];
    const Attempt moved = co_await self->client(w).migrate_from(source, &out.stats);
    out.moved = moved;
  }
  static coro::Task<void> run_scrub(TestCluster* self, std::uint32_t w, std::vector<kv::ClientId> dead) {
    Outcome& out = self->outcomes_[w];
    const kv::Repair repaired = co_await self->store_->scrub(*self->workers_[w], std::move(dead));
    out.scrubbed = repaired.counts;
    out.is_complete = repaired.is_complete;
  }
  static coro::Task<void> run_declare(TestCluster* self, std::uint32_t w, std::vector<fabric::NodeId> lost) {
    Outcome& out = self->outcomes_[w];
    const kv::Repair repaired = co_await self->store_->declare_lost(*self->workers_[w], std::move(lost));
    out.scrubbed = repaired.counts;
    out.is_complete = repaired.is_complete;
  }

  Shape shape_;
  StepFabric fabric_;
  std::unique_ptr<NessieStore> store_;
  std::vector<fabric::Worker*> workers_;
  std::vector<std::unique_ptr<kv::Client>> clients_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<Outcome> outcomes_;
  std::vector<KeyBytes> keys_;
  std::uint64_t next_key_ = 1'000'000;
  bool done_ = false;
};

// A cluster of four nodes unless told otherwise, with these options; its entries expire after a second unless
// the options say when.
inline TestCluster::Shape shape_with(std::map<std::string, std::string> options, std::uint32_t nodes = 4,
                                     const std::string& mutant = {}) {
  TestCluster::Shape shape;
  shape.nodes = nodes;
  shape.options = std::move(options);
  shape.options.try_emplace("nessie.expiry", "1s");
  shape.mutant = mutant;
  return shape;
}

}  // namespace loch::nessie::testing
