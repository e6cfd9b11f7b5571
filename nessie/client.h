// NessieClient: implements kv::Client for one window slot (outstanding operation), with a Lane (buffers,
// connections and entries; lane.h) of its own.
#pragma once

#include "nessie/migrate.h"
#include "nessie/operations.h"

namespace loch::nessie {

class NessieClient final : public kv::Client {
 public:
  NessieClient(NessieStore& store, fabric::Worker& worker, std::uint32_t lane) : lane_(store, worker, lane) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    return nessie::get(&lane_, key, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return nessie::put(&lane_, key, value, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    return nessie::remove(&lane_, key, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                                          fabric::OpStats* stats) override {
    return nessie::insert_if_absent(&lane_, key, value, stats);
  }
  [[nodiscard]] bool can_migrate() const override { return true; }
  [[nodiscard]] coro::Task<kv::OpResult> migrate(kv::Key key, fabric::OpStats* stats) override {
    return migrate_once(&lane_, key, stats);
  }
  // Moves the key in slot `source` by a MIGRATE (move of a key) that is not part of a PUT; for tests and
  // measurements.
  [[nodiscard]] coro::Task<Attempt> migrate_from(cuckoo::Place source, fabric::OpStats* stats) {
    return nessie::migrate_from({.lane = lane_, .stats = stats, .started = lane_.worker.now()}, source);
  }

 private:
  Lane lane_;
};

}  // namespace loch::nessie
