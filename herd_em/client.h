// The client side of HERD: one object per window slot (outstanding operation), and the state that the slots
// of a client worker share.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/fabric/fabric.h"
#include "common/kv/protocol.h"
#include "common/rpc/datagram.h"
#include "common/rpc/remote.h"
#include "herd_em/settings.h"

namespace loch::herd {

// Name of the region with a serving node's request slots.
inline constexpr const char* slots_region = "herd.slots";

struct ClientCounts {
  std::uint64_t retries = 0, timeouts = 0, strays = 0, reconnects = 0;
};

// Memory regions of a node's clients.
struct ClientRegions {
  // Buffers for requests, by client worker and window slot (outstanding operation), in the layout of the
  // server's request slots.
  fabric::Region* requests = nullptr;
  fabric::Region* replies = nullptr;  // receive buffers for replies, by client worker
};

// State that the window slots (outstanding operations) of one client worker share: receive buffers, request
// slots at each server, and which window slot waits for which reply. Used only by its worker's thread;
// outlives the run.
class ClientWorker : public rpc::DatagramReader {
 public:
  ClientWorker(const Settings& settings, fabric::Worker& worker, const ClientRegions& regions,
               fabric::Fabric& fabric, const std::vector<fabric::RemoteRegion>& slots);
  ClientWorker(const ClientWorker&) = delete;
  ClientWorker& operator=(const ClientWorker&) = delete;
  virtual ~ClientWorker() = default;

  // Executes one operation of window slot `slot` (one of the operations that may be outstanding).
  [[nodiscard]] coro::Task<kv::OpResult> call(std::uint32_t slot, Op op, kv::Key key, kv::ValueView value,
                                              fabric::OpStats* stats);

  std::optional<std::uint32_t> read(const fabric::Received& message, const std::byte* payload) override;
  [[nodiscard]] const ClientCounts& counts() const { return counts_; }

  [[nodiscard]] static rpc::ReplyDesk::Shape desk_shape(const Settings& settings);

 private:
  // The current request of a window slot (outstanding operation).
  struct Pending : fabric::CompletionSink {
    fabric::WorkRequest request;
    bool is_sending = false;  // the WRITE has not completed, so the request's buffer must not change
    bool is_waiting = false;
    std::uint32_t server = 0;
    std::uint16_t sequence = 0;
    fabric::OpStats* stats = nullptr;
    std::uint32_t reply_bytes = 0;
    std::vector<std::byte> reply;
  };

  // Whether requests can be written over RC to the server's node; connects anew until `deadline` if the
  // connection has broken.
  [[nodiscard]] coro::Task<bool> reach(std::uint32_t server, Nanos deadline);
  void post(Pending& pending, Op op, std::uint64_t from, std::uint64_t to);
  [[nodiscard]] std::uint32_t slot_of_request(std::uint32_t slot, std::uint32_t server);
  [[nodiscard]] std::uint16_t next_sequence(std::uint32_t slot, std::uint32_t server);
  [[nodiscard]] std::optional<std::uint32_t> whose(const fabric::Received& message, std::uint32_t server);
  void forget(std::uint32_t slot, std::uint32_t server);
  [[nodiscard]] kv::OpResult answered(const Pending& pending, Op op, std::uint32_t retries) const;

  const Settings& settings_;
  fabric::Worker& worker_;
  fabric::Region& requests_;
  fabric::Fabric& fabric_;
  bool is_simulated_;
  std::vector<rpc::Remote> slots_;  // the request slots at each serving node
  std::uint32_t client_;            // identifies this client worker in the cluster
  std::vector<Pending> pending_;    // indexed by window slot (outstanding operation)
  // last sequence number, by server and window slot (outstanding operation)
  std::vector<std::uint16_t> sequence_;
  // Published variant: for each server worker, the number of requests sent to it, modulo the number of window
  // slots (outstanding operations).
  std::vector<std::uint32_t> requests_seen_;
  // Published variant: for each server worker, the window slots (outstanding operations) that wait for its
  // replies, in the order of their requests.
  std::vector<std::deque<std::uint32_t>> queue_;
  Nanos usual_latency_ = 0;  // moving mean of the requests' latency in ns
  ClientCounts counts_;
  rpc::ReplyDesk desk_;
};

class HerdClient final : public kv::Client {
 public:
  HerdClient(ClientWorker& worker, std::uint32_t slot) : worker_(worker), slot_(slot) {}
  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    const kv::ValueView none;
    return worker_.call(slot_, Op::get, key, none, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) override {
    return worker_.call(slot_, Op::put, key, value, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    const kv::ValueView none;
    return worker_.call(slot_, Op::remove, key, none, stats);
  }
  coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                            fabric::OpStats* stats) override {
    return worker_.call(slot_, Op::insert_if_absent, key, value, stats);
  }

 private:
  ClientWorker& worker_;
  std::uint32_t slot_;
};

}  // namespace loch::herd
