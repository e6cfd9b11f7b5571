// What the load generator drives: a session behind kv::Client.
#pragma once

#include "nessie/session.h"

namespace loch::nessie {

class NessieClient final : public kv::Client {
 public:
  NessieClient(NessieStore& store, fabric::Worker& worker, std::uint32_t lane)
      : session_(store, worker, lane) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    return session_.get(key, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return session_.put(key, value, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    return session_.remove(key, stats);
  }
  [[nodiscard]] bool can_migrate() const override { return true; }
  [[nodiscard]] coro::Task<kv::OpResult> migrate(kv::Key key, fabric::OpStats* stats) override {
    return session_.migrate_key(key, stats);
  }
  // For tests and measurements that need a MIGRATE by itself.
  [[nodiscard]] Session& session() { return session_; }

 private:
  Session session_;
};

}  // namespace loch::nessie
