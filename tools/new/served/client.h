// A client: sends requests to the server worker that owns the key, one at a time.
#pragma once

#include "common/kv/protocol.h"
#include "common/rpc/write_caller.h"
#include "newstore/messages.h"

namespace loch::newstore {

// The server worker that owns the key, by the key's digest.
[[nodiscard]] rpc::ServerId owner_of(kv::Key key, const kv::DeployConfig& config);

class Client final : public kv::Client {
 public:
  Client(const rpc::WriteChannel& channel, const kv::DeployConfig& config, fabric::Worker& worker,
         std::uint32_t lane)
      : config_(config), messages_(config), worker_(worker), caller_(channel, worker, lane) {}

  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    return ask(Ask::get, key, {}, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats) override {
    return ask(Ask::put, key, value, stats);
  }
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    return ask(Ask::remove, key, {}, stats);
  }

 private:
  [[nodiscard]] coro::Task<kv::OpResult> ask(Ask what, kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats);
  [[nodiscard]] kv::OpResult result_of(Ask what, const rpc::WriteReply& reply) const;

  const kv::DeployConfig& config_;
  Messages messages_;
  fabric::Worker& worker_;
  rpc::WriteCaller caller_;
};

}  // namespace loch::newstore
