// Running a protocol on any fabric for tests: deploys, preloads, gives server and client workers their
// mains, runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/coupled/tables.h"
#include "common/kv/protocol.h"
#include "common/kv/testing.h"

namespace loch::coupled::testing {

constexpr std::uint32_t key_size = 32, value_size = 600;

// The first of a room's protocols.
inline std::unique_ptr<kv::Module> first_module(void (*add)(std::vector<std::unique_ptr<kv::Module>>&)) {
  std::vector<std::unique_ptr<kv::Module>> made;
  add(made);
  return std::move(made.front());
}

// A cluster in which every byte of every value is kept.
inline kv::DeployConfig small(std::uint32_t nodes, std::uint32_t clients, std::uint32_t servers,
                              std::uint64_t keys) {
  kv::DeployConfig config;
  config.nodes = nodes;
  config.client_workers = clients;
  config.server_workers = servers;
  config.key_size = key_size;
  config.value_size = config.kept_value_bytes = value_size;
  config.keys = keys;
  config.max_keys = keys + keys / 2;
  return config;
}

using kv::testing::PatternData;

// What one client lane asks for: keys and values by number.
class Lane {
 public:
  Lane(kv::Client& client, fabric::Worker& worker, const kv::DeployConfig& config)
      : client_(client), worker_(worker), key_(config.key_size), value_(config.value_size) {}

  struct Outcome {
    kv::OpResult result;
    fabric::OpStats stats;
    std::uint64_t value = 0;
    bool is_torn = false;
  };
  [[nodiscard]] coro::Task<Outcome> get(std::uint64_t number) {
    Outcome outcome;
    const kv::Key key = key_of(number);
    const kv::OpResult got = co_await client_.get(key, &outcome.stats);
    outcome.result = got;
    if (got.status == kv::OpStatus::ok) outcome.is_torn = !PatternData::read_value(got.value, &outcome.value);
    co_return outcome;
  }
  [[nodiscard]] coro::Task<Outcome> put(std::uint64_t number, std::uint64_t value) {
    Outcome outcome;
    const kv::Key key = key_of(number);
    const auto size = static_cast<std::uint32_t>(value_.size());
    PatternData::write_value(value, value_.data(), size);
    const kv::ValueView view{value_.data(), size, size};
    const kv::OpResult put = co_await client_.put(key, view, &outcome.stats);
    outcome.result = put;
    co_return outcome;
  }
  [[nodiscard]] coro::Task<Outcome> remove(std::uint64_t number) {
    Outcome outcome;
    const kv::Key key = key_of(number);
    const kv::OpResult removed = co_await client_.remove(key, &outcome.stats);
    outcome.result = removed;
    co_return outcome;
  }
  [[nodiscard]] fabric::Worker& worker() { return worker_; }

 private:
  [[nodiscard]] kv::Key key_of(std::uint64_t number) {
    PatternData::write_key(number, key_.data(), static_cast<std::uint32_t>(key_.size()));
    return {key_.data(), static_cast<std::uint32_t>(key_.size())};
  }
  kv::Client& client_;
  fabric::Worker& worker_;
  std::vector<std::byte> key_, value_;
};

class ModuleRun {
 public:
  ModuleRun(std::unique_ptr<fabric::Fabric> fabric, const kv::Module& module, const kv::DeployConfig& config,
            const std::map<std::string, std::string>& options = {}, std::string_view mutant = {})
      : fabric_(std::move(fabric)), config_(config) {
    kv::Options parsed(module.options());
    for (const auto& [key, value] : options) check(parsed.set(key, value));
    check(fabric::check(module.requirements(parsed), fabric_->capabilities()));
    auto deployed = module.deploy(config, parsed, mutant);
    check(deployed);
    store_ = std::move(*deployed);
    for (std::uint32_t i = 0; i < config.nodes; ++i) {
      const auto node = static_cast<fabric::NodeId>(i);
      check(store_->setup_node(*fabric_, node));
      for (std::uint32_t w = 0; config.drives(node) && w < config.client_workers; ++w)
        clients_.push_back(add(node, fabric::Role::client, w));
      for (std::uint32_t w = 0; config.serves(node) && w < config.server_workers; ++w)
        servers_.push_back(add(node, fabric::Role::server, config.server_index(w)));
    }
    check(fabric_->exchange(10'000'000'000));
    check(store_->connect(*fabric_));
    check(store_->preload(*fabric_, PatternData(config.keys, config.key_size)));
  }

  // `make` is called on worker w's own thread, with its lane, and what it returns runs there.
  using Main = std::function<coro::Task<void>(Lane*)>;
  void start(std::size_t w, Main make) { fabric_->start(*clients_[w], main_of(this, w, std::move(make))); }

  [[nodiscard]] fabric::RunEnd run() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(i % config_.server_workers);
      fabric_->start(*servers_[i], store_->serve(*servers_[i], index));
    }
    const auto end = fabric_->run();
    check(end);
    return *end;
  }

  [[nodiscard]] kv::Store& store() { return *store_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] const kv::DeployConfig& config() const { return config_; }
  [[nodiscard]] std::size_t workers() const { return clients_.size(); }
  [[nodiscard]] double counter(const std::string& name) const { return store_->counters().at(name); }

 private:
  template <typename R>
  static void check(const R& result) {
    LOCH_CHECK(result.has_value(), "{}", result.has_value() ? std::string() : result.error().message);
  }
  fabric::Worker* add(fabric::NodeId node, fabric::Role role, std::uint32_t index) {
    auto worker = fabric_->add_worker({.node = node,
                                       .role = role,
                                       .index = static_cast<std::uint16_t>(index),
                                       .core = -1,
                                       .name = role == fabric::Role::client ? "client" : "server"});
    check(worker);
    return *worker;
  }
  static coro::Task<void> main_of(ModuleRun* self, std::size_t w, Main make) {
    fabric::Worker& worker = *self->clients_[w];
    const std::unique_ptr<kv::Client> client = self->store_->client(worker, 0);
    Lane lane(*client, worker, self->config_);
    co_await make(&lane);
  }

  std::unique_ptr<fabric::Fabric> fabric_;
  kv::DeployConfig config_;
  std::unique_ptr<kv::Store> store_;
  std::vector<fabric::Worker*> clients_, servers_;
};

struct Tally {
  std::atomic<std::uint64_t> ok{0}, not_found{0}, other{0}, torn{0}, foreign{0};
};

// A value's number is its key's number plus a multiple of `stride`: a GET that returns another key's
// value, or half of one, is seen.
constexpr std::uint64_t stride = 1'000'000;

inline coro::Task<void> work(Lane* lane, std::uint64_t keys, std::uint32_t operations, Tally* tally) {
  Rng& rng = lane->worker().rng();
  for (std::uint32_t i = 0; i < operations; ++i) {
    const std::uint64_t key = rng.below(keys), draw = rng.below(10);
    Lane::Outcome outcome;
    if (draw < 5) {
      outcome = co_await lane->get(key);
      if (outcome.is_torn) ++tally->torn;
      if (outcome.result.status == kv::OpStatus::ok && !outcome.is_torn && outcome.value % stride != key)
        ++tally->foreign;
    } else if (draw < 9) {
      outcome = co_await lane->put(key, key + stride * (1 + i));
    } else {
      outcome = co_await lane->remove(key);
    }
    if (outcome.result.status == kv::OpStatus::ok)
      ++tally->ok;
    else if (outcome.result.status == kv::OpStatus::not_found)
      ++tally->not_found;
    else
      ++tally->other;
  }
}

// Connections fail now and then, half of the failing requests have been executed: every operation comes to
// its end all the same, and what a client wrote last it reads, because nothing is executed twice.
inline coro::Task<void> write_and_read(Lane* lane, std::uint64_t first, std::uint64_t* wrong) {
  for (std::uint64_t i = 0; i < 300; ++i) {
    const std::uint64_t key = first + i % 4;
    const Lane::Outcome put = co_await lane->put(key, key + stride * i);
    const Lane::Outcome got = co_await lane->get(key);
    if (put.result.status != kv::OpStatus::ok || got.result.status != kv::OpStatus::ok || got.is_torn ||
        got.value != key + stride * i)
      ++*wrong;
  }
}

// Puts keys 0 … keys-1 into an empty table; counts those that find no place.
inline coro::Task<void> fill(Lane* lane, std::uint64_t keys, std::uint64_t* full) {
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Lane::Outcome put = co_await lane->put(key, key);
    if (put.result.status == kv::OpStatus::table_full) {
      EXPECT_EQ(put.result.effect, kv::Effect::none);
      ++*full;
      const Lane::Outcome got = co_await lane->get(key);
      EXPECT_EQ(got.result.status, kv::OpStatus::not_found);
    }
  }
}

// What PUTs say while a node dies: of unknown effect, without effect, done.
struct Deaths {
  std::uint64_t unknown = 0, errors = 0, ok = 0;
};
inline coro::Task<void> until_dead(Lane* lane, Deaths* seen) {
  for (std::uint64_t i = 0; i < 400; ++i) {
    const Lane::Outcome put = co_await lane->put(i % 24, i);
    if (put.result.status == kv::OpStatus::ok) ++seen->ok;
    if (put.result.effect == kv::Effect::unknown) ++seen->unknown;
    if (put.result.status == kv::OpStatus::error) {
      EXPECT_EQ(put.result.effect, kv::Effect::none);
      ++seen->errors;
    }
  }
}

// Every key lies once, in a slot of its own; returns how many there are.
inline std::uint64_t expect_sound(Tables& tables) {
  const Settings& s = tables.settings();
  std::set<std::string> keys;
  for (std::uint32_t node = 0; node < s.config.serving_nodes(); ++node) {
    NodeTables& own = tables.local(static_cast<fabric::NodeId>(node));
    for (std::uint32_t server = 0; server < s.servers(); ++server) {
      const RowMemory& memory = own.rows[server]->memory;
      for (std::uint64_t slot = 0; slot < s.slots_per_row; ++slot) {
        const std::uint64_t word = memory.word(slot);
        EXPECT_TRUE(cuckoo::IndexWord::is_stored(word));
        if (cuckoo::IndexWord::is_empty(word)) continue;
        std::vector<std::byte> key(s.config.key_size);
        memory.read_key(cuckoo::IndexWord::entry(word), key.data());
        cuckoo::KeyHash hash = s.family.hash(key);
        EXPECT_LT(hash.rank_of({node * s.servers() + server, slot}), s.functions());
        EXPECT_TRUE(
            keys.insert(std::string(reinterpret_cast<const char*>(key.data()), s.config.key_size)).second);
      }
    }
  }
  return keys.size();
}

}  // namespace loch::coupled::testing
