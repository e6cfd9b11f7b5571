// What the sequencers share: their form as a key-value store, the check that no number is given twice, and
// their counters. Each operation of the load (GET, PUT or DELETE of any key) requests one sequence number,
// which it returns as a value of 8 bytes. One sequencer on node 0 serves all nodes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/kv/protocol.h"
#include "common/rpc/posting.h"
#include "sequencer/ledger.h"

namespace loch::sequencer {

constexpr fabric::NodeId sequencer_node = 0;
constexpr std::uint32_t number_bytes = 8;

// The outcome of one request for a number.
struct Drawn {
  kv::OpStatus status = kv::OpStatus::error;
  std::uint64_t number = 0;
  std::uint32_t retries = 0;
};

class NumberClient : public kv::Client {
 public:
  NumberClient(fabric::Worker& worker, Ledger& ledger) : worker_(worker), ledger_(ledger) {}
  [[nodiscard]] coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) final;
  [[nodiscard]] coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) final;
  [[nodiscard]] coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) final;

 protected:
  [[nodiscard]] virtual coro::Task<Drawn> draw(fabric::OpStats* stats) = 0;
  // One more than the largest number given out, if the sequencer is in this process.
  [[nodiscard]] virtual std::uint64_t claimed() const { return Ledger::unknown; }
  [[nodiscard]] fabric::Worker& worker() { return worker_; }

 private:
  [[nodiscard]] coro::Task<kv::OpResult> next(fabric::OpStats* stats);

  fabric::Worker& worker_;
  Ledger& ledger_;
  std::uint64_t value_ = 0;  // the latest number given out; the operation's result points to it
};

// Counters of one worker, used only by its thread.
struct RetryCounts {
  std::uint64_t retries = 0, timeouts = 0, late_replies = 0, duplicate_requests = 0, requests = 0,
                batches = 0;
};

class NumberStore : public kv::Store {
 public:
  // `numbers_are_ordered`: whether a number has to be larger than all numbers given before its request began.
  NumberStore(const kv::DeployConfig& config, std::uint64_t first, bool numbers_are_ordered)
      : config_(config), ledger_(first), numbers_are_ordered_(numbers_are_ordered) {}
  [[nodiscard]] Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) final;
  [[nodiscard]] std::map<std::string, double> counters() const final;
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

 protected:
  [[nodiscard]] const kv::DeployConfig& config() const { return config_; }
  [[nodiscard]] Ledger& ledger() { return ledger_; }
  // Adds the counters of the derived sequencer class.
  virtual void add_counters(std::map<std::string, double>& counters) const = 0;
  static void add(std::map<std::string, double>& counters, const RetryCounts& counts);
  static void add(std::map<std::string, double>& counters, const rpc::PostingCounts& counts);

 private:
  kv::DeployConfig config_;
  Ledger ledger_;
  bool numbers_are_ordered_;
};

// The part of a module that all three sequencers share.
class NumberModule : public kv::Module {
 public:
  [[nodiscard]] std::string_view paper() const final {
    return "Kalia et al., Design Guidelines for High Performance RDMA Systems, USENIX ATC 2016, section 4.2";
  }
  [[nodiscard]] kv::Consistency consistency(const kv::Options& /*options*/) const final {
    return kv::Consistency::none;
  }
  [[nodiscard]] std::string_view unverifiable() const final {
    return "gives out numbers and stores no values (its own check, that none comes twice, is always on)";
  }
  [[nodiscard]] std::uint32_t useful_bytes(const kv::DeployConfig& /*config*/) const final {
    return number_bytes;
  }
};

// Fails for a deployment without clients and, with `needs_servers`, for one without server workers.
[[nodiscard]] Result<> check_shape(std::string_view name, const kv::DeployConfig& config, bool needs_servers);

[[nodiscard]] std::unique_ptr<kv::Module> make_atomic_module();
[[nodiscard]] std::unique_ptr<kv::Module> make_rpc_module();
[[nodiscard]] std::unique_ptr<kv::Module> make_spec_module();

}  // namespace loch::sequencer
