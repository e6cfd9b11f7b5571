// What seq-rpc and seq-spec, the two sequencers with server workers, share: replies by UD SEND, and clients
// that repeat a request without a reply. The number in a lost reply is a gap; no number is given to two
// requests.
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
  std::string prefix;          // prefix of option and region names, such as "seq-rpc"
  rpc::DatagramShape replies;  // how a server worker posts replies
  rpc::PostingShape requests;  // how a client worker posts requests
  std::uint32_t batch = 1;     // largest number of requests for which one fetch-and-add claims numbers
  // Nanoseconds before a request is repeated; doubles with every repetition, to at most 16 times this value.
  Nanos retry_after = 0;
  Nanos patience = 0;

  [[nodiscard]] std::uint32_t servers() const { return config.server_workers; }
  // Number of operations that all client workers together may have outstanding.
  [[nodiscard]] std::uint32_t lanes() const {
    return config.driving_nodes() * config.client_workers * config.window;
  }
  [[nodiscard]] rpc::ReplyDesk::Shape desk() const {
    return {.payload_bytes = number_bytes,
            // receive buffers: more than one for each outstanding operation, for late replies
            .buffers = 2 * config.window + 16,
            .waiters = config.window,
            .slice = std::max<Nanos>(retry_after / 4, 1'000)};
  }
};

// The current request of a window slot (outstanding operation).
struct Request {
  std::uint64_t sequence = 0;
  std::uint64_t number = 0;  // the number in the reply, once there is one
  fabric::OpStats* stats = nullptr;
  bool is_waiting = false;
};

// A client worker's requests and their replies; used only by its thread.
class Requests : public rpc::DatagramReader {
 public:
  Requests(fabric::Worker& worker, const ServedSettings& settings, fabric::Region& receive);
  virtual ~Requests() = default;

  // Sends the request of window slot (outstanding operation) `slot`, repeatedly if needed, until it is
  // answered.
  [[nodiscard]] coro::Task<Drawn> draw(std::uint32_t slot, fabric::OpStats* stats);
  [[nodiscard]] const RetryCounts& counts() const { return counts_; }
  [[nodiscard]] const rpc::PostingCounts& posted() const { return lists_.counts(); }

 protected:
  // Whether requests can be posted; a transport with connections makes a broken one anew until `deadline`.
  [[nodiscard]] virtual coro::Task<bool> reach(Nanos /*deadline*/) { co_return true; }
  // Makes the work request, with its local buffer if it has one.
  [[nodiscard]] virtual fabric::WorkRequest make(std::uint32_t slot, std::uint32_t attempt) = 0;
  // Ends the request of `slot` with `number`; the reply's bytes and immediate are counted in the statistics
  // of its operation.
  std::uint32_t answer(std::uint32_t slot, std::uint64_t number, const fabric::Received& message);
  // Of the window slots (outstanding operations) that await a reply, the one whose request was sent first.
  [[nodiscard]] std::optional<std::uint32_t> oldest() const;
  void count_late() { ++counts_.late_replies; }
  [[nodiscard]] Request& of(std::uint32_t slot) { return requests_[slot]; }
  [[nodiscard]] fabric::Worker& worker() { return worker_; }

 private:
  void end(std::uint32_t slot);

  fabric::Worker& worker_;
  const ServedSettings& settings_;
  std::vector<Request> requests_;    // indexed by window slot (outstanding operation)
  std::deque<std::uint32_t> order_;  // window slots that await a reply, in the order of their requests
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
  const std::atomic<std::uint64_t>* next_;  // the sequencer's counter; null if it is in another process
};

// The counter to which all server workers of the process add. Adding requires exclusive ownership of its
// cache line, so a worker waits for those before it, and for the line's transfer from the core that had it
// last ("contention for the shared counter", Kalia et al. 2016, section 4.2). wait() models this on the
// simulator and returns 0 on real cores.
class SharedCounter {
 public:
  explicit SharedCounter(std::uint64_t first) : next_(first) {}
  // Time in ns until the worker owns the counter's cache line, to be charged before it adds.
  [[nodiscard]] Nanos wait(const fabric::Worker& worker);
  [[nodiscard]] std::atomic<std::uint64_t>& number() { return next_; }

 private:
  std::atomic<std::uint64_t> next_;
  // Last owner of the counter's cache line; used on the simulator only, which has one thread.
  const fabric::Worker* holder_ = nullptr;
  Nanos free_at_ = 0;
};

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
  // Registers a sequencer's own regions.
  [[nodiscard]] virtual Result<> setup(fabric::Fabric& fabric, fabric::NodeId node) = 0;
  [[nodiscard]] virtual std::unique_ptr<Requests> make_requests(fabric::Worker& worker,
                                                                fabric::Region& receive) = 0;
  // Makes the state of a server worker; called on its thread.
  [[nodiscard]] ServerState& server(fabric::Worker& worker, std::uint32_t index);
  // The counter that all server workers share; they are in one process.
  [[nodiscard]] SharedCounter& counter() { return counter_; }
  void add_counters(std::map<std::string, double>& counters) const override;

 private:
  struct NodeState {
    fabric::Region* receive = nullptr;
    std::vector<std::unique_ptr<Requests>> clients;  // indexed by client worker
  };
  ServedSettings settings_;
  SharedCounter counter_;
  fabric::Region* replies_ = nullptr;
  std::vector<std::unique_ptr<ServerState>> servers_;
  std::map<fabric::NodeId, NodeState> nodes_;
};

// The options that seq-rpc and seq-spec both have, named with `prefix`, and the settings derived from them.
[[nodiscard]] std::vector<kv::OptionSpec> served_options(const std::string& prefix);
[[nodiscard]] Result<ServedSettings> decide_served(const std::string& prefix, const kv::DeployConfig& config,
                                                   const kv::Options& options);
// Option values for fuzzing: short posting lists, several queue pairs, short waits for replies.
[[nodiscard]] std::map<std::string, std::string> served_fuzz_options(const std::string& prefix, Rng& rng);

}  // namespace loch::sequencer
