// Sets up the shards and executes requests on them. Only one worker accesses a shard, so no locks are needed.
#include "newstore/store.h"

#include "common/fabric/memory.h"
#include "common/rpc/write_server.h"
#include "newstore/client.h"

namespace loch::newstore {
namespace {

// The request handler of a server worker.
class Handler final : public rpc::Handler {
 public:
  Handler(const kv::DeployConfig& config, fabric::Worker& worker, Shard& shard)
      : messages_(config),
        value_size_(config.value_size),
        worker_(worker),
        shard_(shard),
        key_(config.key_size, '\0'),
        value_(config.kept_value_bytes) {}

  [[nodiscard]] coro::Task<std::uint8_t> handle(rpc::Request request, ReplyPlace reply) override {
    const fabric::LocalSlice frame = request.frame;
    fabric::copy_from_shared(key_.data(), frame.region->at(frame.offset + messages_.key_at(request.bytes)),
                             key_.size());
    const fabric::CpuCosts& costs = worker_.costs();
    co_await worker_.compute(costs.hash(key_.size()) + costs.memory() + costs.compare(key_.size()));
    Say say = Say::done;
    switch (static_cast<Ask>(request.code)) {
      case Ask::get:
        say = shard_.get(key_, value_) ? Say::value : Say::not_found;
        break;
      case Ask::put:
        fabric::copy_from_shared(value_.data(), frame.region->at(frame.offset), value_.size());
        co_await worker_.compute(costs.copy(value_size_));
        shard_.put(key_, value_);
        break;
      case Ask::remove:
        say = shard_.remove(key_) ? Say::done : Say::not_found;
        break;
    }
    if (say == Say::value) {
      co_await worker_.compute(costs.copy(value_size_));
      fabric::copy_to_shared(reply.region->at(reply.start(messages_.reply(say))), value_.data(),
                             value_.size());
    }
    co_return static_cast<std::uint8_t>(say);
  }

 private:
  Messages messages_;
  std::uint32_t value_size_;
  fabric::Worker& worker_;
  Shard& shard_;
  std::string key_;
  std::vector<std::byte> value_;
};

}  // namespace

Result<> Store::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  std::vector<std::unique_ptr<Shard>> shards;
  for (std::uint32_t i = 0; settings_.config.serves(node) && i < settings_.config.server_workers; ++i)
    shards.push_back(std::make_unique<Shard>(settings_.shard));
  shards_[node] = std::move(shards);
  return channel_.setup_node(fabric, node);
}

Result<> Store::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& data) {
  std::string key(settings_.config.key_size, '\0');
  std::vector<std::byte> value(settings_.config.kept_value_bytes);
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    auto* const bytes = reinterpret_cast<std::byte*>(key.data());
    data.key(i, bytes);
    const rpc::ServerId owner = owner_of({bytes, settings_.config.key_size}, settings_.config);
    const auto local = shards_.find(owner.node);
    if (local == shards_.end()) continue;
    data.value(i, value.data(), settings_.config.kept_value_bytes);
    local->second[owner.index]->put(key, value);
  }
  return {};
}

coro::Task<void> Store::serve(fabric::Worker& worker, std::uint32_t index) {
  Handler handler(settings_.config, worker, *shards_.at(worker.node())[index]);
  rpc::WriteServer server(channel_, worker, index);
  co_await server.run(&handler);
}

std::unique_ptr<kv::Client> Store::client(fabric::Worker& worker, std::uint32_t slot) {
  const std::uint32_t lane = settings_.channel.parties.lane(worker.index(), slot);
  return std::make_unique<Client>(channel_, settings_.config, worker, lane);
}

bool Store::needs(kv::Key key, fabric::NodeId node, std::optional<std::uint32_t> server) const {
  const rpc::ServerId owner = owner_of(key, settings_.config);
  return owner.node == node && (!server || *server == owner.index);
}

std::map<std::string, double> Store::counters() const {
  std::map<std::string, double> all;
  for (const auto& [node, shards] : shards_)
    for (const auto& shard : shards)
      for (const auto& [name, count] : shard->counters()) all[name] += count;
  return all;
}

}  // namespace loch::newstore
