// The sequencer over HERD's RPCs (Kalia et al. 2016, section 4.2). A request is a UC WRITE of one word into
// a slot that a server worker polls; the worker claims numbers for a batch of requests by one fetch-and-add,
// and answers each request by a UD SEND of 8 bytes.
//
//   request  | attempt | sequence |      never 0, and different from the next request's word
//            0         8          64
//   reply    number u64; immediate: | low bits of the sequence | window slot |
//                                   0                          20            32
//
// A repeated request gets a new number; the number in the lost reply is a gap. The published code has no
// sequence: any word other than 0 is a request, the worker zeroes the word, and any reply is taken for the
// answer to the present request (known fault S1, docs/protocols/seq-rpc.md).
#include "common/fabric/memory.h"
#include "common/rpc/remote.h"
#include "sequencer/served.h"

namespace loch::sequencer {
namespace {

constexpr std::string_view prefix = "seq-rpc";
// Request slots on node 0: one word for each server worker and window slot (outstanding operation) that it
// serves.
constexpr std::string_view slots_region = "seq-rpc.slots";
// Memory from which clients WRITE their requests: one word for each window slot (outstanding operation).
constexpr std::string_view staging_region = "seq-rpc.staging";

enum class Fault : std::uint8_t { none, claims_one, splits_claim };

struct Settings : ServedSettings {
  explicit Settings(ServedSettings served) : ServedSettings(std::move(served)) {}
  bool has_ids = true;
  fabric::Transport transport = fabric::Transport::uc;  // transport of requests; replies are UD SENDs
  Fault fault = Fault::none;

  // Number of request slots of one server worker; the window slots (outstanding operations) of all clients
  // are distributed round-robin over the server workers.
  [[nodiscard]] std::uint32_t columns() const { return (lanes() + servers() - 1) / servers(); }
  [[nodiscard]] std::uint64_t slot_at(std::uint32_t lane) const {
    return (std::uint64_t{lane % servers()} * columns() + lane / servers()) * 8;
  }
};

constexpr std::uint32_t sequence_bits = 20;  // bits of a reply's immediate that hold the sequence
constexpr std::uint32_t sequence_mask = (1U << sequence_bits) - 1;

std::uint32_t label(std::uint32_t slot, std::uint64_t sequence) {
  return slot << sequence_bits | (static_cast<std::uint32_t>(sequence) & sequence_mask);
}

class RpcRequests final : public Requests {
 public:
  RpcRequests(fabric::Worker& worker, const Settings& settings, fabric::Region& receive,
              fabric::Region& staging, fabric::Fabric& fabric, const fabric::RemoteRegion& slots)
      : Requests(worker, settings, receive),
        settings_(settings),
        staging_(staging),
        fabric_(fabric),
        slots_{slots, worker.epoch(sequencer_node)} {}

  [[nodiscard]] std::optional<std::uint32_t> read(const fabric::Received& message,
                                                  const std::byte* payload) override {
    std::optional<std::uint32_t> slot = oldest();
    if (settings_.has_ids) {
      const std::uint32_t named = message.immediate >> sequence_bits;
      slot.reset();
      if (message.has_immediate && named < settings_.config.window && of(named).is_waiting &&
          label(named, of(named).sequence) == message.immediate)
        slot = named;
    }
    if (!slot || message.length != number_bytes) {
      count_late();
      return std::nullopt;
    }
    std::uint64_t number = 0;
    fabric::copy_from_shared(&number, payload, number_bytes);
    return answer(*slot, number, message);
  }

 protected:
  // Over RC, reconnects after an error. Returns false for a sequencer that restarted: it has lost its
  // counter, and its slots have a new rkey.
  [[nodiscard]] coro::Task<bool> reach(Nanos deadline) override {
    if (settings_.transport == fabric::Transport::uc) co_return true;
    if (worker().is_connected_since(sequencer_node, slots_.epoch)) co_return !slots_.is_lost;
    co_return co_await rpc::restore(worker(), fabric_, slots_, slots_region, deadline);
  }
  [[nodiscard]] fabric::WorkRequest make(std::uint32_t slot, std::uint32_t attempt) override {
    const kv::DeployConfig& config = settings_.config;
    const std::uint32_t lane = config.client_number(worker().node(), worker().index()) * config.window + slot;
    const fabric::LocalSlice from{&staging_, (std::uint64_t{worker().index()} * config.window + slot) * 8};
    const std::uint64_t word = settings_.has_ids ? of(slot).sequence << 8 | (attempt & 0xFF) : 1;
    fabric::store_word_release(from.data(), word);
    fabric::WorkRequest request = fabric::one_sided(fabric::Verb::write, slots_.region,
                                                    settings_.slot_at(lane), from, 8, of(slot).stats);
    request.transport = settings_.transport;
    request.is_inline = true;
    return request;
  }

 private:
  const Settings& settings_;
  fabric::Region& staging_;
  fabric::Fabric& fabric_;
  rpc::Remote slots_;
};

class RpcStore final : public ServedStore {
 public:
  explicit RpcStore(const Settings& settings) : ServedStore(settings, 0, true), settings_(settings) {}

  [[nodiscard]] Result<> connect(fabric::Fabric& fabric) override {
    fabric_ = &fabric;
    LOCH_ASSIGN(remote_slots_, fabric.lookup(sequencer_node, slots_region));
    return {};
  }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;

 protected:
  [[nodiscard]] Result<> setup(fabric::Fabric& fabric, fabric::NodeId node) override {
    const Settings& s = settings_;
    if (node == sequencer_node) {
      fabric::RegionSpec spec{.name = std::string(slots_region),
                              .bytes = std::uint64_t{s.servers()} * s.columns() * 8};
      spec.remote_write = true;
      LOCH_ASSIGN(slots_, fabric.register_region(node, spec));
    }
    if (!s.config.drives(node)) return {};
    const std::uint64_t words = std::uint64_t{s.config.client_workers} * s.config.window;
    LOCH_ASSIGN(staging_[node],
                fabric.register_region(node, {.name = std::string(staging_region), .bytes = words * 8}));
    return {};
  }
  [[nodiscard]] std::unique_ptr<Requests> make_requests(fabric::Worker& worker,
                                                        fabric::Region& receive) override {
    return std::make_unique<RpcRequests>(worker, settings_, receive, *staging_.at(worker.node()), *fabric_,
                                         remote_slots_);
  }

 private:
  struct Found {
    std::uint32_t lane = 0;
    std::uint64_t word = 0;
  };
  // The request slots that a server worker polls, with the words last seen there.
  struct Row {
    std::vector<std::uint64_t> seen;
    std::uint32_t index = 0;  // index of the server worker
    std::vector<Found> batch;
  };
  static bool is_news(void* row, std::uint32_t column, std::uint64_t word) {
    return word != static_cast<Row*>(row)->seen[column];
  }
  // Collects the new requests in a server worker's slots into row.batch, beginning at slot `column` and
  // wrapping around; returns the slot at which the next scan starts.
  std::uint32_t collect(fabric::Worker& worker, ServerState& own, Row& row, std::uint32_t column);
  [[nodiscard]] coro::Task<std::uint64_t> claim(fabric::Worker& worker, std::uint64_t numbers);
  [[nodiscard]] rpc::DatagramAddress client_of(std::uint32_t lane) const {
    const std::uint32_t number = lane / settings_.config.window;
    return {
        static_cast<fabric::NodeId>(settings_.config.server_nodes + number / settings_.config.client_workers),
        static_cast<std::uint16_t>(number % settings_.config.client_workers)};
  }

  Settings settings_;
  fabric::Fabric* fabric_ = nullptr;  // set by connect()
  fabric::Region* slots_ = nullptr;
  fabric::RemoteRegion remote_slots_;
  std::map<fabric::NodeId, fabric::Region*> staging_;
};

std::uint32_t RpcStore::collect(fabric::Worker& worker, ServerState& own, Row& row, std::uint32_t column) {
  row.batch.clear();
  const std::uint32_t columns = settings_.columns();
  const std::uint64_t first = std::uint64_t{row.index} * columns * 8;
  for (std::uint32_t i = 0; i < columns && row.batch.size() < settings_.batch; ++i) {
    const std::uint64_t word = fabric::load_word(slots_->at(first + std::uint64_t{column} * 8));
    if (word != row.seen[column]) {
      row.batch.push_back({column * settings_.servers() + row.index, word});
      if (!settings_.has_ids)
        worker.store_word(*slots_, first + std::uint64_t{column} * 8, 0);
      else if (row.seen[column] >> 8 == word >> 8)
        ++own.counts.duplicate_requests;
      if (settings_.has_ids) row.seen[column] = word;
    }
    column = column + 1 == columns ? 0 : column + 1;
  }
  own.counts.requests += row.batch.size();
  ++own.counts.batches;
  return column;
}

coro::Task<std::uint64_t> RpcStore::claim(fabric::Worker& worker, std::uint64_t numbers) {
  switch (settings_.fault) {
    case Fault::none:
      break;
    case Fault::claims_one:  // known bad: adds 1 for a whole batch; later batches reuse numbers
      co_return counter().number().fetch_add(1, std::memory_order_relaxed);
    // Known bad: load and store are not one atomic step, so that two workers may give out the same numbers.
    case Fault::splits_claim: {
      const std::uint64_t first = counter().number().load();
      co_await worker.spin_until(worker.now() + 200);
      counter().number().store(first + numbers);
      co_return first;
    }
  }
  co_return counter().number().fetch_add(numbers, std::memory_order_relaxed);
}

coro::Task<void> RpcStore::serve(fabric::Worker& worker, std::uint32_t index) {
  if (worker.node() != sequencer_node) co_return;
  ServerState& own = server(worker, index);
  Row row;
  row.seen.resize(settings_.columns());
  row.index = index;
  row.batch.reserve(settings_.batch);
  const fabric::WatchSet set{.region = slots_,
                             .offset = std::uint64_t{index} * settings_.columns() * 8,
                             .stride = 8,
                             .count = settings_.columns(),
                             .ready = &RpcStore::is_news,
                             .context = &row};
  for (std::uint32_t start = 0;;) {
    const fabric::WatchAny news = co_await worker.watch_any(set, start);
    if (news.outcome != fabric::WatchOutcome::ready) co_return;
    start = collect(worker, own, row, news.index);
    co_await worker.compute(static_cast<Nanos>(row.batch.size()) * worker.costs().compare(8));
    co_await worker.compute(counter().wait(worker));
    std::uint64_t number = co_await claim(worker, row.batch.size());
    for (const Found& found : row.batch) {
      if (!own.sender.has_room()) co_await own.sender.room();
      fabric::copy_to_shared(own.sender.buffer(), &number, number_bytes);
      ++number;
      const std::uint32_t slot = found.lane % settings_.config.window;
      std::optional<std::uint32_t> immediate;
      if (settings_.has_ids) immediate = label(slot, found.word >> 8);
      own.sender.send(client_of(found.lane), number_bytes, immediate);
    }
    own.sender.flush();
  }
}

class RpcModule final : public NumberModule {
 public:
  [[nodiscard]] std::string_view name() const override { return prefix; }
  [[nodiscard]] std::string_view summary() const override {
    return "sequencer: UC WRITE of a word to a polled slot, UD SEND of the number, batches";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    std::vector<kv::OptionSpec> all = served_options(std::string(prefix));
    all.push_back({"seq-rpc.request-ids",
                   kv::OptionType::boolean,
                   "true",
                   "a reply names its request (fixes S1); false: as published, any reply answers any request",
                   {}});
    all.push_back({"seq-rpc.transport",
                   kv::OptionType::choice,
                   "uc",
                   "of requests: uc, as published, or rc, for devices without UC (the result says over RC)",
                   {"uc", "rc"}});
    return all;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    // A request or a number is one aligned word: words must not be torn, and the order of placement does not
    // matter.
    const bool is_rc = is_over_rc(options);
    return {.rc = is_rc,
            .uc = !is_rc,
            .ud = true,
            .untorn_bytes = 8,
            .max_inline_bytes = number_bytes,
            .ud_lanes = static_cast<std::uint32_t>(options.integer("seq-rpc.lanes"))};
  }
  [[nodiscard]] std::string_view departure(const kv::Options& options) const override {
    return is_over_rc(options) ? "over RC" : "";
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 2; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override {
    return {{"claims-one", {"a batch of requests claims one number only", 1}},
            {"splits-claim", {"the shared counter is loaded and stored, not added to", 8}}};
  }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    if (options.boolean("seq-rpc.request-ids")) return {};
    return {{"S1", "a late reply answers the next request, with a number from before it was made",
             "seq-rpc.request-ids"}};
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override {
    return {{"S1",
             "a late reply answers the next request, with a number from before it was made",
             {{"seq-rpc.request-ids", "false"}},
             2}};
  }
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    return served_fuzz_options(std::string(prefix), rng);
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(const ServedSettings served, decide_served(std::string(prefix), config, options));
    Settings settings(served);
    settings.has_ids = options.boolean("seq-rpc.request-ids");
    if (is_over_rc(options)) settings.transport = fabric::Transport::rc;
    if (mutant == "claims-one") settings.fault = Fault::claims_one;
    if (mutant == "splits-claim") settings.fault = Fault::splits_claim;
    return std::make_unique<RpcStore>(settings);
  }

 private:
  [[nodiscard]] static bool is_over_rc(const kv::Options& options) {
    return options.choice("seq-rpc.transport") == "rc";
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_rpc_module() { return std::make_unique<RpcModule>(); }

}  // namespace loch::sequencer
