// A store with one slot for each record, for tests of the load driver.
#include "tests/support/slot_store.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <unordered_map>

#include "common/fabric/memory.h"
#include "common/kv/further_loads.h"
#include "common/kv/value.h"

namespace loch::support {
namespace {

using fabric::Completion;
using fabric::Worker;

// Layout of a slot: lock (even: free, odd: held; grows by 2 with every PUT or DELETE) | state (0 absent, 1
// present) | value
constexpr std::uint64_t state_at = 8, value_at = 16;

struct Shared {
  kv::DeployConfig config;
  kv::Options options;
  bool has_lock = true;
  std::uint64_t slot_bytes = 0;
  std::uint32_t read_bytes = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> record_of;  // key digest -> record
  std::map<fabric::NodeId, fabric::Region*> buffers;
  std::vector<fabric::RemoteRegion> slots;
};

class SlotClient final : public kv::Client {
 public:
  SlotClient(Worker& worker, Shared& shared, std::uint32_t slot)
      : worker_(worker), shared_(shared), buffer_(shared.buffers.at(worker.node())) {
    const std::uint64_t number = std::uint64_t{worker.index()} * shared.config.window + slot;
    at_ = number * (2 * shared.slot_bytes);
  }

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    const std::uint64_t record = find(key);
    for (std::uint32_t attempt = 0; attempt < attempts; ++attempt) {
      const Completion first = co_await worker_.read(home(record), offset(record), landing(0), 8, stats);
      const std::uint64_t before = word(0);
      const Completion body =
          co_await worker_.read(home(record), offset(record) + state_at, landing(state_at),
                                static_cast<std::uint32_t>(shared_.slot_bytes - state_at), stats);
      const Completion last = co_await worker_.read(home(record), offset(record), landing(0), 8, stats);
      if (!first.ok() || !body.ok() || !last.ok()) co_return failed(kv::Effect::none);
      if (shared_.has_lock && (before % 2 == 1 || word(0) != before)) continue;
      co_return found(attempt);
    }
    co_return kv::OpResult{kv::OpStatus::conflict, kv::Effect::none, attempts, {}};
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) override {
    co_return co_await change(find(key), value, true, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await change(find(key), kv::ValueView{}, false, stats);
  }

 private:
  static constexpr std::uint32_t attempts = 1000;

  coro::Task<kv::OpResult> change(std::uint64_t record, kv::ValueView value, bool is_put,
                                  fabric::OpStats* stats) {
    std::uint64_t held = 0;
    std::uint32_t attempt = 0;
    for (; shared_.has_lock && attempt < attempts; ++attempt) {
      const Completion seen = co_await worker_.read(home(record), offset(record), landing(0), 8, stats);
      if (!seen.ok()) co_return failed(kv::Effect::none);
      held = word(0);
      if (held % 2 == 1) continue;
      const Completion taken = co_await worker_.cas(home(record), offset(record), held, held + 1, stats);
      if (!taken.ok()) co_return failed(kv::Effect::unknown);
      if (taken.result == held) break;
    }
    if (attempt == attempts) co_return kv::OpResult{kv::OpStatus::conflict, kv::Effect::none, attempts, {}};
    const Completion old =
        co_await worker_.read(home(record), offset(record) + state_at, landing(state_at), 8, stats);
    const bool was_there = word(state_at) == 1;
    const std::uint64_t out = shared_.slot_bytes;
    store(out + state_at, is_put ? 1 : 0);
    if (is_put) fabric::copy_to_shared(buffer_->at(at_ + out + value_at), value.data, value.kept);
    const auto length = static_cast<std::uint32_t>(is_put ? shared_.slot_bytes - state_at : 8);
    const Completion written = co_await worker_.write(home(record), offset(record) + state_at,
                                                      landing(out + state_at), length, stats);
    if (shared_.has_lock) {
      const Completion freed = co_await worker_.cas(home(record), offset(record), held + 1, held + 2, stats);
      if (!freed.ok()) co_return failed(kv::Effect::unknown);
    }
    if (!old.ok() || !written.ok()) co_return failed(kv::Effect::unknown);
    const bool is_absent = !is_put && !was_there;
    co_return kv::OpResult{
        is_absent ? kv::OpStatus::not_found : kv::OpStatus::ok, kv::Effect::none, attempt, {}};
  }

  [[nodiscard]] std::uint64_t find(kv::Key key) const {
    const auto found = shared_.record_of.find(kv::key_digest(key));
    LOCH_CHECK(found != shared_.record_of.end(), "a key that was not preloaded");
    return found->second;
  }
  [[nodiscard]] const fabric::RemoteRegion& home(std::uint64_t record) const {
    return shared_.slots[record % shared_.config.serving_nodes()];
  }
  [[nodiscard]] std::uint64_t offset(std::uint64_t record) const {
    return record / shared_.config.serving_nodes() * shared_.slot_bytes;
  }
  [[nodiscard]] fabric::LocalSlice landing(std::uint64_t within) const { return {buffer_, at_ + within}; }
  [[nodiscard]] std::uint64_t word(std::uint64_t within) const {
    return fabric::load_word(buffer_->at(at_ + within));
  }
  void store(std::uint64_t within, std::uint64_t value) {
    fabric::store_word_release(buffer_->at(at_ + within), value);
  }
  [[nodiscard]] static kv::OpResult failed(kv::Effect effect) { return {kv::OpStatus::error, effect, 0, {}}; }
  [[nodiscard]] kv::OpResult found(std::uint32_t retries) {
    if (word(state_at) != 1) return {kv::OpStatus::not_found, kv::Effect::none, retries, {}};
    value_.resize(shared_.config.kept_value_bytes);
    fabric::copy_from_shared(value_.data(), buffer_->at(at_ + value_at), value_.size());
    return {kv::OpStatus::ok,
            kv::Effect::none,
            retries,
            {value_.data(), shared_.config.value_size, shared_.config.kept_value_bytes}};
  }

  Worker& worker_;
  Shared& shared_;
  fabric::Region* buffer_;
  std::uint64_t at_;
  std::vector<std::byte> value_;
};

class SlotStore final : public kv::Store, public kv::FurtherLoads {
 public:
  explicit SlotStore(Shared shared) : shared_(std::move(shared)) {}

  Result<> setup_node(fabric::Fabric& fabric, fabric::NodeId node) override {
    const kv::DeployConfig& c = shared_.config;
    const std::uint64_t records = (c.max_keys + c.serving_nodes() - 1) / c.serving_nodes();
    fabric::RegionSpec slots{.name = "slots", .bytes = records * shared_.slot_bytes};
    slots.remote_read = slots.remote_write = slots.remote_atomic = true;
    if (c.serves(node)) LOCH_TRY(fabric.register_region(node, slots));
    const std::uint64_t clients = std::uint64_t{c.client_workers} * c.window;
    fabric::RegionSpec buffers{.name = "buffers", .bytes = clients * 2 * shared_.slot_bytes};
    LOCH_ASSIGN(shared_.buffers[node], fabric.register_region(node, buffers));
    return {};
  }
  Result<> connect(fabric::Fabric& fabric) override {
    for (std::uint32_t node = 0; node < shared_.config.serving_nodes(); ++node) {
      LOCH_ASSIGN(const fabric::RemoteRegion region,
                  fabric.lookup(static_cast<fabric::NodeId>(node), "slots"));
      shared_.slots.push_back(region);
    }
    return {};
  }
  Result<> preload(fabric::Fabric& fabric, const kv::Dataset& data) override {
    const kv::DeployConfig& c = shared_.config;
    std::vector<std::byte> key(c.key_size), value(c.kept_value_bytes);
    for (std::uint64_t i = 0; i < c.max_keys; ++i) {
      data.key(i, key.data());
      shared_.record_of[kv::key_digest({key.data(), c.key_size})] = i;
      const auto node = static_cast<fabric::NodeId>(i % c.serving_nodes());
      if (i >= data.count() || !fabric.is_local(node)) continue;
      fabric::Region* region = fabric.direct(node, "slots");
      LOCH_CHECK(region != nullptr, "the slots of node {} cannot be reached", node);
      const std::uint64_t at = i / c.serving_nodes() * shared_.slot_bytes;
      fabric::store_word_release(region->at(at + state_at), 1);
      data.value(i, value.data(), c.kept_value_bytes);
      fabric::copy_to_shared(region->at(at + value_at), value.data(), value.size());
    }
    return {};
  }
  coro::Task<void> serve(Worker&, std::uint32_t) override { co_return; }
  std::unique_ptr<kv::Client> client(Worker& worker, std::uint32_t slot) override {
    clients_.fetch_add(1);
    return std::make_unique<SlotClient>(worker, shared_, slot);
  }
  std::map<std::string, double> counters() const override {
    return {{"slots", static_cast<double>(shared_.config.max_keys)},
            {"clients_made", static_cast<double>(clients_)}};
  }
  std::vector<std::string_view> levels() const override { return {"slots"}; }

 private:
  Shared shared_;
  std::atomic<std::uint32_t> clients_ = 1;  // by threads of all workers; 1: as if a preload had counted it
};

class SlotModule final : public kv::Module {
 public:
  std::string_view name() const override { return "slots"; }
  std::string_view summary() const override { return "one slot a record"; }
  std::string_view paper() const override { return "none"; }
  std::vector<kv::OptionSpec> options() const override {
    return {{.key = "slots.spare",
             .type = kv::OptionType::size,
             .initial = "0",
             .help = "bytes between slots",
             .choices = {},
             .minimum = 0,
             .maximum = 4096}};
  }
  kv::Consistency consistency(const kv::Options&) const override { return kv::Consistency::linearizable; }
  fabric::Requirements requirements(const kv::Options&) const override {
    fabric::Requirements needs;
    needs.rc = true;
    needs.atomic_scope = fabric::AtomicScope::nic;
    return needs;
  }
  std::map<std::string, kv::Mutant> mutants() const override { return {{"no-lock", {"values tear"}}}; }
  Result<std::unique_ptr<kv::Store>> deploy(const kv::DeployConfig& config, const kv::Options& options,
                                            std::string_view mutant) const override {
    if (config.value_size > 1 << 20) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("--value-size {}: a slot holds 1M", config.value_size));
    }
    Shared shared;
    shared.config = config;
    shared.options = options;
    shared.has_lock = mutant != "no-lock";
    const auto spare = static_cast<std::uint64_t>(options.integer("slots.spare"));
    shared.slot_bytes = (value_at + config.kept_value_bytes + spare + 7) / 8 * 8;
    return std::make_unique<SlotStore>(std::move(shared));
  }
};

}  // namespace

std::unique_ptr<kv::Module> make_slot_store() { return std::make_unique<SlotModule>(); }

}  // namespace loch::support
