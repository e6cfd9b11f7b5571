// Spec-S0 (Kalia et al. 2016, section 4.2.1): the speculating sequencer, which uses datagrams only. A request
// is a UD SEND without payload whose immediate has the client's guess of the number's high 32 bits. If the
// guess is right, the reply is also a SEND without payload, with the low 32 bits as its immediate; otherwise
// it is a SEND of all 8 bytes. Replies do not name their request: a number goes to the window slot
// (outstanding operation) that has waited longest.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/fabric/memory.h"
#include "sequencer/guess.h"
#include "sequencer/served.h"

namespace loch::sequencer {
namespace {

constexpr std::string_view prefix = "seq-spec";
// Region on node 0 with the receive buffers of the server workers.
constexpr std::string_view requests_region = "seq-spec.requests";
// Bytes of a server worker's receive buffer: a received datagram begins with a global routing header of 40
// bytes.
constexpr std::uint32_t receive_bytes = 64;

enum class Fault : std::uint8_t { none, claims_one, guess_by_batch };

struct Settings : ServedSettings {
  explicit Settings(ServedSettings served) : ServedSettings(std::move(served)) {}
  std::uint32_t low_bits = 32;
  std::uint64_t first = 0;
  Nanos lifetime = 0;
  bool fixes_r1 = true;
  Fault fault = Fault::none;

  [[nodiscard]] std::uint64_t low_mask() const { return (std::uint64_t{1} << low_bits) - 1; }
  // Largest number of outstanding requests to one server worker.
  [[nodiscard]] std::uint64_t asked_at_once() const {
    const std::uint64_t workers = std::uint64_t{config.driving_nodes()} * config.client_workers;
    return (workers + servers() - 1) / servers() * config.window;
  }
  // Number of RECVs that a server worker posts: enough for all outstanding requests and for repeated ones.
  [[nodiscard]] std::uint32_t receives(const fabric::Capabilities& device) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(2 * asked_at_once() + 64, device.recv_queue_depth));
  }
};

class SpecRequests final : public Requests {
 public:
  SpecRequests(fabric::Worker& worker, const Settings& settings, fabric::Region& receive)
      : Requests(worker, settings, receive), guess_(settings.low_bits, settings.lifetime, settings.fixes_r1) {
    const kv::DeployConfig& config = settings.config;
    const std::uint32_t number = config.client_number(worker.node(), worker.index());
    server_ = config.server_index(number % settings.servers());
  }

  [[nodiscard]] std::optional<std::uint32_t> read(const fabric::Received& message,
                                                  const std::byte* payload) override {
    std::uint64_t number = 0;
    if (message.length == number_bytes) {
      fabric::copy_from_shared(&number, payload, number_bytes);
      guess_.whole_reply(number, worker().now());
    } else if (message.length == 0 && message.has_immediate) {
      number = guess_.short_reply(message.immediate, worker().now());
    } else {
      return std::nullopt;
    }
    const std::optional<std::uint32_t> slot = oldest();
    if (!slot) {
      count_late();
      return std::nullopt;
    }
    return answer(*slot, number, message);
  }

 protected:
  [[nodiscard]] fabric::WorkRequest make(std::uint32_t slot, std::uint32_t /*attempt*/) override {
    fabric::WorkRequest request;
    request.verb = fabric::Verb::send;
    request.transport = fabric::Transport::ud;
    request.peer = sequencer_node;
    request.peer_worker = server_;
    request.has_immediate = true;
    request.immediate = guess_.send();
    request.stats = of(slot).stats;
    return request;
  }

 private:
  Guess guess_;
  std::uint16_t server_;
};

class SpecStore final : public ServedStore {
 public:
  explicit SpecStore(const Settings& settings)
      : ServedStore(settings, settings.first, false), settings_(settings) {}

  [[nodiscard]] Result<> connect(fabric::Fabric& /*fabric*/) override { return {}; }
  [[nodiscard]] coro::Task<void> serve(fabric::Worker& worker, std::uint32_t index) override;

 protected:
  [[nodiscard]] Result<> setup(fabric::Fabric& fabric, fabric::NodeId node) override {
    if (node != sequencer_node) return {};
    const fabric::Capabilities& device = fabric.capabilities();
    // A datagram that finds no RECV is lost, and its client waits in vain until it repeats the request.
    if (settings_.asked_at_once() > device.recv_queue_depth) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("window {}: a server worker's {} clients may have {} requests under way, and its "
                      "receive queue holds {}; expected a smaller window, fewer clients or more servers",
                      settings_.config.window, settings_.asked_at_once() / settings_.config.window,
                      settings_.asked_at_once(), device.recv_queue_depth));
    }
    const std::uint64_t bytes =
        std::uint64_t{settings_.servers()} * settings_.receives(device) * receive_bytes;
    LOCH_ASSIGN(requests_,
                fabric.register_region(node, {.name = std::string(requests_region), .bytes = bytes}));
    return {};
  }
  [[nodiscard]] std::unique_ptr<Requests> make_requests(fabric::Worker& worker,
                                                        fabric::Region& receive) override {
    return std::make_unique<SpecRequests>(worker, settings_, receive);
  }

 private:
  struct Asked {
    rpc::DatagramAddress client;
    std::uint32_t guess = 0;
  };
  [[nodiscard]] std::uint64_t claim(std::uint64_t numbers) {
    // Known-bad variant claims-one: adds 1 for a whole batch, so that later batches get the batch's other
    // numbers again.
    return counter().number().fetch_add(settings_.fault == Fault::claims_one ? 1 : numbers,
                                        std::memory_order_relaxed);
  }
  [[nodiscard]] coro::Task<void> reply(fabric::Worker* worker, ServerState* own,
                                       const std::vector<Asked>* batch);

  Settings settings_;
  fabric::Region* requests_ = nullptr;
};

coro::Task<void> SpecStore::reply(fabric::Worker* worker, ServerState* own, const std::vector<Asked>* batch) {
  own->counts.requests += batch->size();
  ++own->counts.batches;
  co_await worker->compute(counter().wait(*worker));
  const std::uint64_t first = claim(batch->size());
  std::uint64_t number = first;
  for (const Asked& asked : *batch) {
    if (!own->sender.has_room()) co_await own->sender.room();
    // Known-bad variant guess-by-batch: the guess is compared with the first number of the batch for all its
    // requests.
    const std::uint64_t judged = settings_.fault == Fault::guess_by_batch ? first : number;
    const auto low = static_cast<std::uint32_t>(number & settings_.low_mask());
    if (asked.guess == static_cast<std::uint32_t>(judged >> settings_.low_bits)) {
      own->sender.send(asked.client, 0, low);
    } else {
      fabric::copy_to_shared(own->sender.buffer(), &number, number_bytes);
      own->sender.send(asked.client, number_bytes);
    }
    ++number;
  }
  own->sender.flush();
}

coro::Task<void> SpecStore::serve(fabric::Worker& worker, std::uint32_t index) {
  if (worker.node() != sequencer_node) co_return;
  ServerState& own = server(worker, index);
  const std::uint32_t receives = settings_.receives(worker.capabilities());
  const std::uint64_t first = std::uint64_t{index} * receives * receive_bytes;
  for (std::uint32_t i = 0; i < receives; ++i)
    worker.post_recv(fabric::Transport::ud, {requests_, first + std::uint64_t{i} * receive_bytes},
                     receive_bytes, i);
  std::vector<Asked> batch;
  batch.reserve(settings_.batch);
  while (true) {
    // Waits for the batch's first request, and adds further requests only if they have arrived already.
    const Nanos deadline = batch.empty() ? fabric::forever : worker.now();
    const fabric::Received got = co_await worker.receive(fabric::Transport::ud, deadline);
    if (got.outcome == fabric::Received::Outcome::stopping) co_return;
    if (got.outcome == fabric::Received::Outcome::message) {
      worker.post_recv(fabric::Transport::ud, got.buffer, receive_bytes, got.user);
      if (got.has_immediate) batch.push_back({{got.from, got.from_worker}, got.immediate});
      if (batch.size() < settings_.batch) continue;
    }
    co_await reply(&worker, &own, &batch);
    batch.clear();
  }
}

class SpecModule final : public NumberModule {
 public:
  [[nodiscard]] std::string_view name() const override { return prefix; }
  [[nodiscard]] std::string_view summary() const override {
    return "sequencer: datagrams without payload, the client speculates on the high 32 bits (Spec-S0)";
  }
  [[nodiscard]] std::vector<kv::OptionSpec> options() const override {
    using kv::OptionType;
    std::vector<kv::OptionSpec> all = served_options(std::string(prefix));
    all.push_back(kv::fix_option(
        "seq-spec", "r1",
        "low bits are taken for the former guess's while it may still be answered; false: as published "
        "(R1)",
        "true"));
    all.push_back({"seq-spec.lifetime",
                   OptionType::duration,
                   "1s",
                   "the longest that a reply may be on its way, for mend-r1; less than 2^31 numbers take",
                   {},
                   1,
                   1e12});
    all.push_back({"seq-spec.low-bits",
                   OptionType::integer,
                   "32",
                   "bits of a number in a short reply; with fewer the guess changes more often",
                   {},
                   4,
                   32});
    all.push_back({"seq-spec.first", OptionType::integer, "0", "the first number", {}, 0, 1e18});
    return all;
  }
  [[nodiscard]] fabric::Requirements requirements(const kv::Options& options) const override {
    return {.ud = true,
            .untorn_bytes = 8,
            .max_inline_bytes = number_bytes,
            .ud_lanes = static_cast<std::uint32_t>(options.integer("seq-spec.lanes"))};
  }
  [[nodiscard]] std::uint32_t default_servers() const override { return 2; }
  [[nodiscard]] std::map<std::string, kv::Mutant> mutants() const override {
    return {{"claims-one", {"a batch of requests claims one number only", 1}},
            {"guess-by-batch", {"a guess that is right for the first number of a batch passes for all", 3}}};
  }
  [[nodiscard]] std::vector<kv::Fix> fixes(const kv::Options& options) const override {
    if (options.boolean("seq-spec.mend-r1")) return {};
    return {{"R1", "the low bits of a late reply are joined to the newest guess", "seq-spec.mend-r1"}};
  }
  [[nodiscard]] std::vector<kv::Hole> holes() const override {
    return {{"R1",
             "the low bits of a late reply are joined to the newest guess",
             {{"seq-spec.mend-r1", "false"}},
             13}};
  }
  // Option values for fuzzing: short replies carry 16 bits, and the first number is just below 2^16, so that
  // the guess of the high bits changes during a run.
  [[nodiscard]] std::map<std::string, std::string> fuzz_options(
      Rng& rng, const kv::DeployConfig& /*shape*/) const override {
    std::map<std::string, std::string> drawn = served_fuzz_options(std::string(prefix), rng);
    constexpr std::uint64_t bits = 16;
    drawn["seq-spec.low-bits"] = std::to_string(bits);
    drawn["seq-spec.first"] = std::to_string((std::uint64_t{1} << bits) - 1 - rng.below(300));
    return drawn;
  }
  [[nodiscard]] Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config,
                                                          const kv::Options& options,
                                                          std::string_view mutant) const override {
    LOCH_ASSIGN(const ServedSettings served, decide_served(std::string(prefix), config, options));
    Settings settings(served);
    settings.low_bits = static_cast<std::uint32_t>(options.integer("seq-spec.low-bits"));
    settings.first = static_cast<std::uint64_t>(options.integer("seq-spec.first"));
    settings.lifetime = options.integer("seq-spec.lifetime");
    settings.fixes_r1 = options.boolean("seq-spec.mend-r1");
    if (mutant == "claims-one") settings.fault = Fault::claims_one;
    if (mutant == "guess-by-batch") settings.fault = Fault::guess_by_batch;
    return std::make_unique<SpecStore>(settings);
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_spec_module() { return std::make_unique<SpecModule>(); }

}  // namespace loch::sequencer
