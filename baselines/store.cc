// Starts the real servers of a deployment, loads records over sockets, makes clients, and gathers the
// servers' counters.
#include "baselines/store.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "baselines/loader.h"
#include "common/base/check.h"

namespace loch::baselines {
namespace {

// Region in which a node publishes the addresses of its servers to the other nodes: one per line, followed by
// zeros.
constexpr std::string_view address_region = "baseline-servers";
constexpr std::uint64_t address_bytes = 128;  // bytes for one server's address, its index and the newline
constexpr Nanos look_interval = 20'000'000;   // ns between checks whether the servers are alive

// Blocks SIGPIPE in the calling thread, since hiredis may write to a closed socket.
void ignore_broken_pipes() {
  sigset_t pipes;
  ::sigemptyset(&pipes);
  ::sigaddset(&pipes, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
}

}  // namespace

// State that all outstanding operations of a worker share.
struct RealStore::WorkerState {
  std::unique_ptr<RedisWorker> redis;
  std::unique_ptr<MemcachedWorker> memcached;
};

RealStore::RealStore(Settings settings) : settings_(std::move(settings)) {}
RealStore::~RealStore() = default;

Result<> RealStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  if (!settings_.given.empty() || !settings_.config.serves(node)) return {};
  const std::uint64_t most = (settings_.servers + settings_.config.serving_nodes() - 1) /
                             settings_.config.serving_nodes() * address_bytes;
  LOCH_ASSIGN(fabric::Region * region,
              fabric.register_region(node, {.name = std::string(address_region), .bytes = most}));
  if (folder_ == nullptr) {
    LOCH_ASSIGN(folder_, ServerFolder::make());
  }
  std::string lines;
  for (std::uint32_t index = 0; index < settings_.servers; ++index) {
    if (settings_.node_of(index) != node) continue;
    auto own = std::make_unique<Own>();
    own->index = index;
    LOCH_ASSIGN(own->running, start_server(settings_, folder_->path(), index));
    lines += fmt::format("{} {}\n", index, own->running.address.text());
    own_.push_back(std::move(own));
  }
  LOCH_CHECK(lines.size() <= most, "{} bytes of addresses in {}", lines.size(), most);
  std::memcpy(region->at(0), lines.data(), lines.size());
  return {};
}

Result<> RealStore::collect_addresses(fabric::Fabric& fabric) {
  addresses_.resize(settings_.servers);
  for (std::uint32_t node = 0; node < settings_.config.serving_nodes(); ++node) {
    const auto id = static_cast<fabric::NodeId>(node);
    const fabric::Region* region = fabric.direct(id, address_region);
    if (region == nullptr) {
      return fail(ErrorCode::unsupported,
                  fmt::format("{}: node {} may be another machine, and Loch's own servers listen on theirs "
                              "alone; start the servers and name them with --{}",
                              name(settings_.system), node, settings_.flag("address")));
    }
    std::string_view lines(reinterpret_cast<const char*>(region->at(0)), region->bytes());
    lines = lines.substr(0, lines.find('\0'));
    while (!lines.empty()) {
      const std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(line.size() + 1);
      const auto blank = line.find(' ');
      LOCH_ASSIGN(std::vector<Address> one, parse_addresses(line.substr(blank + 1), "address"));
      addresses_.at(std::stoul(std::string(line.substr(0, blank)))) = std::move(one.at(0));
    }
  }
  return {};
}

Result<> RealStore::connect(fabric::Fabric& fabric) {
  if (settings_.given.empty()) return collect_addresses(fabric);
  addresses_ = settings_.given;
  const Nanos within = std::min<Nanos>(settings_.start_timeout, 5'000'000'000);
  for (const Address& address : addresses_) {
    if (auto facts = ask(settings_.system, address, within); !facts) {
      return fail(facts.error().code, fmt::format("--{} {}: {}", settings_.flag("address"), address.text(),
                                                  facts.error().message));
    }
  }
  return {};
}

Result<> RealStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  std::vector<std::unique_ptr<Loader>> loaders(addresses_.size());
  for (std::uint32_t server = 0; server < addresses_.size(); ++server) {
    const bool is_mine =
        settings_.given.empty() ? fabric.is_local(settings_.node_of(server)) : fabric.rank() == 0;
    if (!is_mine) continue;
    LOCH_ASSIGN(loaders[server],
                Loader::connect(settings_.system, addresses_[server], settings_.start_timeout));
  }
  std::vector<std::byte> key(settings_.config.key_size), value(settings_.config.value_size);
  std::string text;
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    data.key(i, key.data());
    const kv::Key record{key.data(), data.key_size(i, settings_.config.key_size)};
    Loader* loader = loaders[settings_.server_of(record)].get();
    if (loader == nullptr) continue;
    const std::uint32_t size = data.value_size(i, settings_.config.value_size);
    data.value(i, value.data(), size);
    write_key_text(settings_.system, record, text);
    LOCH_TRY(loader->put(text, std::span<const std::byte>(value.data(), size)));
  }
  for (const auto& loader : loaders) {
    if (loader != nullptr) LOCH_TRY(loader->finish());
  }
  for (const auto& own : own_) cpu_before_s_ += own->running.process->cpu_s();
  return {};
}

// The main coroutine of a server worker. The servers themselves are separate processes; the coroutine of a
// node's first server worker only checks whether the node's servers are alive.
coro::Task<void> RealStore::serve(fabric::Worker& worker, std::uint32_t index) {
  while (!worker.stopping()) {
    if (index == 0) look_after(worker.node());
    co_await worker.sleep_until(worker.now() + look_interval);
  }
}

void RealStore::look_after(fabric::NodeId node) {
  for (const auto& own : own_) {
    if (settings_.node_of(own->index) != node || own->is_lost || own->running.process->is_alive()) continue;
    own->is_lost = true;
    ++lost_servers_;
    fmt::print(stderr, "{} at {}: {}\n", name(settings_.system), own->running.address.text(),
               own->running.process->last_words());
  }
}

RealStore::WorkerState& RealStore::state_of(fabric::Worker& worker) {
  const std::lock_guard lock(mutex_);
  auto& state = workers_[{worker.node(), worker.index()}];
  if (state == nullptr) {
    state = std::make_unique<WorkerState>();
    if (settings_.system == System::redis)
      state->redis = std::make_unique<RedisWorker>(worker, addresses_, counts_);
    else
      state->memcached = std::make_unique<MemcachedWorker>(worker, addresses_, counts_, settings_);
  }
  return *state;
}

std::unique_ptr<kv::Client> RealStore::client(fabric::Worker& worker, std::uint32_t /*slot*/) {
  ignore_broken_pipes();
  WorkerState& state = state_of(worker);
  if (state.redis != nullptr) return make_redis_client(worker, *state.redis, settings_);
  return make_memcached_client(*state.memcached, settings_);
}

coro::Task<void> RealStore::background(fabric::Worker& worker, const bool* done) {
  WorkerState& state = state_of(worker);
  if (state.redis != nullptr) {
    co_await state.redis->reactor.run(done);
  } else if (!state.memcached->couriers.empty()) {
    // Only with courier threads do coroutines wait on the reactor; without them the worker calls
    // libmemcached, which blocks.
    co_await state.memcached->reactor.run(done);
  }
}

std::map<std::string, double> RealStore::counters() const {
  const auto key = [&](std::string_view what) { return settings_.flag(what); };
  double cpu = -cpu_before_s_;
  for (const auto& own : own_) cpu += own->running.process->cpu_s();
  return {{key("servers_started"), static_cast<double>(own_.size())},
          {key("servers_lost"), static_cast<double>(lost_servers_)},
          {key("server_cpu_s"), std::max(0.0, cpu)},
          {key("connections"), static_cast<double>(counts_.opened)},
          {key("connection_failures"), static_cast<double>(counts_.failed)},
          {key("timeouts"), static_cast<double>(counts_.timed_out)}};
}

std::string RealStore::transport() const {
  if (settings_.given.empty()) return settings_.is_unix ? "unix socket" : "tcp (127.0.0.1)";
  const bool all_unix = std::ranges::all_of(settings_.given, &Address::is_unix);
  const bool all_tcp = std::ranges::none_of(settings_.given, &Address::is_unix);
  return all_unix ? "unix socket" : all_tcp ? "tcp" : "unix socket and tcp";
}

}  // namespace loch::baselines
