// The client's side of a partially coupled store: sends the requests of one slot of a client's window (one
// operation outstanding at a time) to the server worker that owns a key.
#pragma once

#include <cstdint>

#include "common/coupled/tables.h"
#include "common/rpc/write_caller.h"

namespace loch::coupled {

class TableClient {
 public:
  TableClient(Tables& tables, fabric::Worker& worker, std::uint32_t lane);

  // Executes one operation by a request to the server. The returned value of a GET remains valid until the
  // next operation of this TableClient.
  [[nodiscard]] coro::Task<kv::OpResult> ask(Ask what, kv::Key key, kv::ValueView value,
                                             fabric::OpStats* stats);

 private:
  [[nodiscard]] rpc::ServerId server_of(kv::Key key);
  void lay_out(Ask what, rpc::ServerId server, kv::Key key, kv::ValueView value);
  [[nodiscard]] kv::OpResult result_of(Ask what, const rpc::WriteReply& reply) const;
  void count();

  const Settings& settings_;
  fabric::Worker& worker_;
  rpc::WriteCaller caller_;
  ClientCounts& counts_;
  const ClientCounts before_;  // what clients of earlier loads counted in this lane
};

}  // namespace loch::coupled
