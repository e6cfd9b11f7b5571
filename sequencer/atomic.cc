// The sequencer of atomics (Kalia et al., Design Guidelines, USENIX ATC 2016, section 4.2 and table 3): a
// number is one RC FETCH_AND_ADD on a word of node 0, without a server. A client worker posts the requests of
// all its outstanding operations on a few queue pairs (two by default).
#include <array>

#include "common/base/check.h"
#include "common/fabric/memory.h"
#include "common/rpc/remote.h"
#include "sequencer/number_store.h"

namespace loch::sequencer {
namespace {

constexpr std::string_view counter_region = "seq-atomic.counter";
// Buffers into which known-bad variants READ the counter.
constexpr std::string_view landing_region = "seq-atomic.landing";

enum class Fault : std::uint8_t { none, one_landing, read_then_write };

struct Settings {
  kv::DeployConfig config;
  rpc::PostingShape posting;
  Nanos patience = 0;
  Fault fault = Fault::none;
};

std::vector<kv::OptionSpec> option_specs() {
  using kv::OptionType;
  return {
      {"seq-atomic.lanes",
       OptionType::integer,
       "2",
       "queue pairs of a client worker, used in turn (published code of 2016)",
       {},
       1,
       16},
      {"seq-atomic.posting-list",
       OptionType::integer,
       "32",
       "work requests behind one doorbell, at most (2016, 3.1: Doorbell batching); 1: a doorbell each",
       {},
       1,
       4096},
      {"seq-atomic.signal-every",
       OptionType::integer,
       "32",
       "one of so many work requests asks for a completion (2016, 3.2; published code: 32)",
       {},
       1,
       4096},
      {"seq-atomic.patience",
       OptionType::duration,
       "20ms",
       "how long an operation tries to reach the sequencer anew",
       {},
       1,
       1e12},
  };
}

// State that all outstanding operations of a client worker share.
struct WorkerState {
  WorkerState(fabric::Worker& worker, const Settings& settings) : lists(worker, settings.posting) {}
  rpc::PostingLists lists;
  rpc::Remote counter;
  RetryCounts counts;
};

class AtomicStore;

class AtomicClient final : public NumberClient {
 public:
  AtomicClient(AtomicStore& store, fabric::Worker& worker, WorkerState& own, std::uint32_t slot);

 protected:
  [[nodiscard]] coro::Task<Drawn> draw(fabric::OpStats* stats) override;

 private:
  [[nodiscard]] coro::Task<fabric::Completion> add_one(fabric::OpStats* stats);
  [[nodiscard]] coro::Task<fabric::Completion> read_then_write(fabric::OpStats* stats);

  AtomicStore& store_;
  WorkerState& own_;
  fabric::LocalSlice landing_;
};

class AtomicStore final : public NumberStore {
 public:
  explicit AtomicStore(const Settings& settings)
      : NumberStore(settings.config, 0, true), settings_(settings) {}

  [[nodiscard]] Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    if (node == sequencer_node) {
      LOCH_ASSIGN(const fabric::Region* counter,
                  fabric.register_region(node, {.name = std::string(counter_region),
                                                .bytes = 8,
                                                .remote_read = settings_.fault == Fault::read_then_write,
                                                .remote_write = settings_.fault == Fault::read_then_write,
                                                .remote_atomic = true}));
      static_cast<void>(counter);
    }
    const std::uint64_t slots = std::uint64_t{settings_.config.client_workers} * settings_.config.window;
    if (settings_.fault != Fault::none) {
      LOCH_ASSIGN(landing_[node],
                  fabric.register_region(node, {.name = std::string(landing_region), .bytes = slots * 8}));
    }
    workers_[node].resize(settings_.config.client_workers);
    return {};
  }
  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override {
    fabric_ = &fabric;
    LOCH_ASSIGN(counter_, fabric.lookup(sequencer_node, counter_region));
    return {};
  }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& /*worker*/, std::uint32_t /*index*/) override {
    co_return;  // server workers have nothing to do: the NIC executes the additions
  }
  [[nodiscard]] std::unique_ptr<kv::Client> client(fabric::Worker& worker, std::uint32_t slot) override {
    std::unique_ptr<WorkerState>& own = workers_.at(worker.node()).at(worker.index());
    if (own == nullptr) {
      own = std::make_unique<WorkerState>(worker, settings_);
      own->counter = {.region = counter_, .epoch = worker.epoch(sequencer_node), .is_lost = false};
    }
    return std::make_unique<AtomicClient>(*this, worker, *own, slot);
  }

  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] fabric::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] Ledger& numbers() { return ledger(); }
  [[nodiscard]] fabric::LocalSlice landing(const fabric::Worker& worker, std::uint32_t slot) const {
    if (settings_.fault == Fault::none) return {};
    const std::uint32_t first = worker.index() * settings_.config.window;
    const bool is_shared = settings_.fault == Fault::one_landing;
    return {landing_.at(worker.node()), (is_shared ? first : first + slot) * std::uint64_t{8}};
  }

 protected:
  void add_counters(std::map<std::string, double>& counters) const override {
    for (const auto& [node, workers] : workers_) {
      for (const auto& own : workers) {
        if (own == nullptr) continue;
        add(counters, own->counts);
        add(counters, own->lists.counts());
      }
    }
  }

 private:
  Settings settings_;
  fabric::Fabric* fabric_ = nullptr;
  fabric::RemoteRegion counter_;
  std::map<fabric::NodeId, fabric::Region*> landing_;
  // The states of client workers, by node of this process and index of the worker.
  std::map<fabric::NodeId, std::vector<std::unique_ptr<WorkerState>>> workers_;
};

AtomicClient::AtomicClient(AtomicStore& store, fabric::Worker& worker, WorkerState& own, std::uint32_t slot)
    : NumberClient(worker, store.numbers()),
      store_(store),
      own_(own),
      landing_(store.landing(worker, slot)) {}

coro::Task<fabric::Completion> AtomicClient::add_one(fabric::OpStats* stats) {
  fabric::WorkRequest request =
      fabric::one_sided(fabric::Verb::faa, own_.counter.region, 0, landing_, 8, stats);
  request.operand = 1;
  fabric::Completion done = co_await own_.lists.execute(request);
  if (store_.settings().fault == Fault::one_landing && done.ok())
    done.result = fabric::load_word(landing_.data());
  co_return done;
}

// Known-bad variant: READ and WRITE instead of FETCH_AND_ADD, which loses other clients' additions between
// the two.
coro::Task<fabric::Completion> AtomicClient::read_then_write(fabric::OpStats* stats) {
  const fabric::Completion read = co_await worker().read(own_.counter.region, 0, landing_, 8, stats);
  if (!read.ok()) co_return read;
  const std::uint64_t number = fabric::load_word(landing_.data());
  fabric::store_word_release(landing_.data(), number + 1);
  const fabric::Completion written = co_await worker().write(own_.counter.region, 0, landing_, 8, stats);
  co_return fabric::Completion{written.status, number};
}

coro::Task<Drawn> AtomicClient::draw(fabric::OpStats* stats) {
  const Nanos deadline = worker().now() + store_.settings().patience;
  Drawn drawn;
  while (!own_.counter.is_lost) {
    const bool is_mutant = store_.settings().fault == Fault::read_then_write;
    coro::Task<fabric::Completion> attempt = is_mutant ? read_then_write(stats) : add_one(stats);
    const fabric::Completion done = co_await std::move(attempt);
    if (done.ok()) {
      drawn.status = kv::OpStatus::ok;
      drawn.number = done.result;
      break;
    }
    // After an error it is unknown whether the addition was executed. The retry draws a new number, and the
    // old one may be a gap. A restarted node's counter begins anew and would repeat numbers, so clients do
    // not use that counter again.
    const bool is_back =
        co_await rpc::restore(worker(), store_.fabric(), own_.counter, counter_region, deadline);
    if (!is_back || worker().now() >= deadline || worker().stopping()) break;
    ++drawn.retries;
    ++own_.counts.retries;
  }
  if (drawn.status != kv::OpStatus::ok) ++own_.counts.timeouts;
  co_return drawn;
}

class AtomicModule final : public NumberModule {
 public:
  [[nodiscard]] std::string_view name() const override { return "seq-atomic"; }
  [[nodiscard]] std::string_view summary() const override {
    return "sequencer: a number is one FETCH_AND_ADD on a word of node 0";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override { return option_specs(); }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& /*options*/) const override {
    return {.rc = true, .atomic_scope = fabric::AtomicScope::nic, .max_rd_atomic = 1};
  }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override {
    return {{"one-landing", {"all window slots of a worker let their old words land in one place", 2}},
            {"read-then-write", {"the word is READ and WRITTEN back plus one, not added to", 1}}};
  }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    constexpr std::array<const char*, 3> few = {"1", "2", "3"};
    return {{"seq-atomic.lanes", few[rng.below(few.size())]},
            {"seq-atomic.posting-list", few[rng.below(few.size())]},
            {"seq-atomic.signal-every", few[rng.below(few.size())]},
            {"seq-atomic.patience", "1s"}};
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_TRY(check_shape(name(), config, false));
    Settings settings{.config = config};
    settings.posting = {
        .list_most = static_cast<std::uint32_t>(options.integer("seq-atomic.posting-list")),
        .signal_every = static_cast<std::uint32_t>(options.integer("seq-atomic.signal-every")),
        .lanes = static_cast<std::uint8_t>(options.integer("seq-atomic.lanes"))};
    settings.patience = options.integer("seq-atomic.patience");
    if (mutant == "one-landing") settings.fault = Fault::one_landing;
    if (mutant == "read-then-write") settings.fault = Fault::read_then_write;
    return std::make_unique<AtomicStore>(settings);
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_atomic_module() { return std::make_unique<AtomicModule>(); }

}  // namespace loch::sequencer
