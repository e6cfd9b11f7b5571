// What the two sequencers with servers share: replies by UD SEND, and clients that ask again when none
// comes. A number whose reply is lost is a gap; none is ever given to two requests.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "common/rpc/datagram.h"
#include "sequencer/number_store.h"

namespace loch::sequencer {

struct ServedSettings {
  kv::DeployConfig config;
  std::string prefix;          // "seq-rpc"
  rpc::DatagramShape replies;  // how a server worker posts its replies
  rpc::PostingShape requests;  // how a client worker posts its requests
  std::uint32_t batch = 1;     // requests that one fetch-and-add claims numbers for
  Nanos retry_after = 0;       // doubles with every try, up to sixteen times as much
  Nanos patience = 0;

  [[nodiscard]] std::uint32_t servers() const { return config.server_workers; }
  // Window slots of all client workers.
  [[nodiscard]] std::uint32_t lanes() const {
    return config.driving_nodes() * config.client_workers * config.window;
  }
  [[nodiscard]] rpc::ReplyDesk::Shape desk() const {
    return {.payload_bytes = number_bytes,
            .buffers = 2 * config.window + 16,  // for late replies too
            .waiters = config.window,
            .slice = std::max<Nanos>(retry_after / 4, 1'000)};
  }
};

// The request that a window slot waits for.
struct Request {
  std::uint64_t sequence = 0;
  std::uint64_t number = 0;  // once it is answered
  fabric::OpStats* stats = nullptr;
  bool is_waiting = false;
};

// A client worker's requests and the replies to them. Its own thread's.
class Requests : public rpc::DatagramReader {
 public:
  Requests(fabric::Worker& worker, const ServedSettings& settings, fabric::Region& receive);
  virtual ~Requests() = default;

  // Sends slot's request until it is answered.
  [[nodiscard]] coro::Task<Drawn> draw(std::uint32_t slot, fabric::OpStats* stats);
  [[nodiscard]] const RetryCounts& counts() const { return counts_; }
  [[nodiscard]] const rpc::PostingCounts& posted() const { return lists_.counts(); }

 protected:
  // The request, with its local buffer if it has one.
  [[nodiscard]] virtual fabric::WorkRequest make(std::uint32_t slot, std::uint32_t attempt) = 0;
  // `slot` was answered with `number`; the message's bytes and immediate count for its operation.
  std::uint32_t answer(std::uint32_t slot, std::uint64_t number, const fabric::Received& message);
  // The waiting slot whose request began first.
  [[nodiscard]] std::optional<std::uint32_t> oldest() const;
  void count_late() { ++counts_.late_replies; }
  [[nodiscard]] Request& of(std::uint32_t slot) { return requests_[slot]; }
  [[nodiscard]] fabric::Worker& worker() { return worker_; }

 private:
  void end(std::uint32_t slot);

  fabric::Worker& worker_;
  const ServedSettings& settings_;
  std::vector<Request> requests_;    // by window slot
  std::deque<std::uint32_t> order_;  // waiting slots in the order of their requests
  rpc::PostingLists lists_;
  rpc::ReplyDesk desk_;
  RetryCounts counts_;
};

class ServedClient final : public NumberClient {
 public:
  ServedClient(fabric::Worker& worker, Ledger& ledger, Requests& own, std::uint32_t slot,
               const std::atomic<std::uint64_t>* next)
      : NumberClient(worker, ledger), own_(own), slot_(slot), next_(next) {}

 protected:
  [[nodiscard]] coro::Task<Drawn> draw(fabric::OpStats* stats) override { return own_.draw(slot_, stats); }
  [[nodiscard]] std::uint64_t claimed() const override {
    return next_ == nullptr ? Ledger::unknown : next_->load(std::memory_order_acquire);
  }

 private:
  Requests& own_;
  std::uint32_t slot_;
  const std::atomic<std::uint64_t>* next_;  // null: in another process
};

// The counter that all server workers of the process add to. A core that adds needs its line, which is at one
// core at a time: who claims waits for those before, and for the line to come from the core that had it last
// (4.2: "contention for the shared counter"). Real cores see to that themselves; there wait() is 0.
class SharedCounter {
 public:
  explicit SharedCounter(std::uint64_t first) : next_(first) {}
  // The time until the worker owns the counter's cache line, to be charged before its claim.
  [[nodiscard]] Nanos wait(const fabric::Worker& worker);
  [[nodiscard]] std::atomic<std::uint64_t>& number() { return next_; }

 private:
  std::atomic<std::uint64_t> next_;
  const fabric::Worker* holder_ = nullptr;  // simulated time only, which one thread makes: no race
  Nanos free_at_ = 0;
};

// A server worker's state.
struct ServerState {
  ServerState(fabric::Worker& worker, const ServedSettings& settings, fabric::Region& replies,
              std::uint32_t index)
      : sender(worker, settings.replies, replies, settings.replies.bytes() * index) {}
  rpc::DatagramSender sender;
  RetryCounts counts;
};

class ServedStore : public NumberStore {
 public:
  ServedStore(const ServedSettings& settings, std::uint64_t first, bool numbers_are_ordered)
      : NumberStore(settings.config, first, numbers_are_ordered), settings_(settings), counter_(first) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) final;
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) final;

 protected:
  // Registers the regions that a sequencer needs beyond the shared ones.
  [[nodiscard]] virtual Result<> setup(fabric::Fabric& fabric, fabric::NodeId node) = 0;
  [[nodiscard]] virtual std::unique_ptr<Requests> make_requests(fabric::Worker& worker,
                                                                fabric::Region& receive) = 0;
  // Makes a server worker's state; on its own thread.
  [[nodiscard]] ServerState& server(fabric::Worker& worker, std::uint32_t index);
  // The counter that all server workers, which are in one process, share.
  [[nodiscard]] SharedCounter& counter() { return counter_; }
  void add_counters(std::map<std::string, double>& counters) const override;

 private:
  struct NodeState {
    fabric::Region* receive = nullptr;
    std::vector<std::unique_ptr<Requests>> clients;  // by worker
  };
  ServedSettings settings_;
  SharedCounter counter_;
  fabric::Region* replies_ = nullptr;
  std::vector<std::unique_ptr<ServerState>> servers_;
  std::map<fabric::NodeId, NodeState> nodes_;
};

// The options that both have, with their names under `prefix`, and what they decide.
[[nodiscard]] std::vector<kv::OptionSpec> served_options(const std::string& prefix);
[[nodiscard]] Result<ServedSettings> decide_served(const std::string& prefix, const kv::DeployConfig& config,
                                                   const kv::Options& options);
// Small lists, several lanes, short tries.
[[nodiscard]] std::map<std::string, std::string> served_fuzz_options(const std::string& prefix, Rng& rng);

}  // namespace loch::sequencer
