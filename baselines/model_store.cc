// Simulates memcached and Redis: clients send real request texts over the modelled kernel TCP, and servers
// execute them on simulated cores.
#include "baselines/model_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace loch::baselines {
namespace {

// Upper bound of a request's or reply's bytes besides the value; the key's text has at most twice the key's
// bytes, plus 1.
std::uint32_t longest_text(const kv::DeployConfig& config) { return 2 * config.key_size + 80; }

rpc::MessageShape shape_of(const Settings& settings) {
  const kv::DeployConfig& config = settings.config;
  rpc::MessageShape shape;
  shape.name = name(settings.system);
  shape.transport = fabric::Transport::rc;
  shape.nodes = config.nodes;
  shape.server_nodes = config.server_nodes;
  shape.client_workers = config.client_workers;
  shape.window = config.window;
  shape.server_workers = config.server_workers;
  shape.request_bytes = shape.reply_bytes = longest_text(config) + config.value_size;
  if (config.kept_value_bytes < config.value_size)
    shape.kept_bytes = longest_text(config) + config.kept_value_bytes;
  shape.is_inline = false;
  // TCP delivers each message once, so a repeated request is dropped. Requests are repeated after 200 ms, the
  // least time after which Linux's TCP retransmits.
  shape.drops_duplicates = !settings.executes_twice;
  shape.reply_timeout = settings.executes_twice ? 200'000 : 200'000'000;
  shape.patience = settings.timeout;
  return shape;
}

std::string_view text_of(const std::byte* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

void copy_text(std::string_view text, std::byte* to) { std::memcpy(to, text.data(), text.size()); }

}  // namespace

// The client of one window slot (outstanding operation).
class ModelStore::Client final : public kv::Client {
 public:
  Client(ModelStore& store, fabric::Worker& worker, rpc::MessageClient& channel, std::uint32_t slot)
      : store_(store), worker_(worker), channel_(channel), slot_(slot) {}

  coro::Task<kv::OpResult> get(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::get, key, {}, stats);
  }
  coro::Task<kv::OpResult> put(kv::Key key, kv::ValueView value, fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::put, key, value, stats);
  }
  coro::Task<kv::OpResult> remove(kv::Key key, fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::remove, key, {}, stats);
  }
  coro::Task<kv::OpResult> insert_if_absent(kv::Key key, kv::ValueView value,
                                            fabric::OpStats* stats) override {
    co_return co_await execute(OpKind::insert_if_absent, key, value, stats);
  }

 private:
  coro::Task<kv::OpResult> execute(OpKind op, kv::Key key, kv::ValueView value, fabric::OpStats* stats);
  coro::Task<void> travel(fabric::NodeId from, fabric::NodeId to, std::uint64_t bytes);
  [[nodiscard]] std::uint32_t write_request(OpKind op, kv::ValueView value);
  [[nodiscard]] kv::OpResult result_of(OpKind op, const rpc::Reply& reply) const;
  [[nodiscard]] rpc::ServerAddress server_of(kv::Key key) const;
  void keep_copy(OpKind op, kv::ValueView put, const kv::OpResult& result);

  ModelStore& store_;
  fabric::Worker& worker_;
  rpc::MessageClient& channel_;
  std::uint32_t slot_;
  std::string key_, head_;
  // known-bad variant stale-copy: the client's own copies of values by key, which its GETs return
  std::map<std::string, std::string> copies_;
};

rpc::ServerAddress ModelStore::Client::server_of(kv::Key key) const {
  const Settings& settings = store_.settings_;
  // The server thread that handles this client's connection.
  const std::uint32_t connection =
      settings.config.client_number(worker_.node(), worker_.index()) * settings.config.window + slot_;
  return {settings.node_of(settings.server_of(key)),
          static_cast<std::uint16_t>(connection % settings.threads)};
}

std::uint32_t ModelStore::Client::write_request(OpKind op, kv::ValueView value) {
  const System system = store_.settings_.system;
  head_.clear();
  append_head(system, op, key_, value.size, head_);
  std::byte* out = channel_.request(slot_);
  copy_text(head_, out);
  if (!brings_value(op)) return static_cast<std::uint32_t>(head_.size());
  std::memcpy(out + head_.size(), value.data, value.kept);
  if (value.kept == value.size) copy_text(value_end, out + head_.size() + value.size);
  return static_cast<std::uint32_t>(head_.size() + value.size + value_end.size());
}

// Waits for the latency of a message through the kernel's TCP, from socket to socket, that occupies no core.
coro::Task<void> ModelStore::Client::travel(fabric::NodeId from, fabric::NodeId to, std::uint64_t bytes) {
  const KernelPath& path = store_.path_;
  const Nanos now = worker_.now();
  const bool has_own_link = path.link_byte_ns > 0 && from != to;
  const Nanos arrived = has_own_link ? store_.links_.pass(from, to, now, path.on_link(bytes)) : now;
  co_await worker_.sleep_until(arrived + path.one_way_ns);
}

coro::Task<kv::OpResult> ModelStore::Client::execute(OpKind op, kv::Key key, kv::ValueView value,
                                                     fabric::OpStats* stats) {
  const KernelPath& path = store_.path_;
  write_key_text(store_.settings_.system, key, key_);
  if (store_.settings_.keeps_copies && op == OpKind::get) {
    if (const auto copy = copies_.find(key_); copy != copies_.end()) {
      const auto size = static_cast<std::uint32_t>(copy->second.size());
      kv::OpResult old;
      old.value = {reinterpret_cast<const std::byte*>(copy->second.data()), size, size};
      co_await worker_.compute(worker_.costs().operation());
      co_return old;
    }
  }
  const rpc::ServerAddress to = server_of(key);
  const Nanos sending = path.cpu_to_send(
      request_bytes(store_.settings_.system, op, static_cast<std::uint32_t>(key_.size()), value.size));
  co_await worker_.compute(sending);
  const std::uint32_t length = write_request(op, value);
  co_await travel(worker_.node(), to.node, length);
  const rpc::Reply reply = co_await channel_.call(slot_, to, 0, length, stats);
  if (!reply.ok()) {
    kv::OpResult lost;
    const bool was_sent = reply.outcome == rpc::Reply::Outcome::no_answer;
    lost.status = was_sent ? kv::OpStatus::timeout : kv::OpStatus::error;
    lost.effect = was_sent && op != OpKind::get ? kv::Effect::unknown : kv::Effect::none;
    lost.retries = reply.retries;
    co_return lost;
  }
  co_await travel(to.node, worker_.node(), reply.length);
  const Nanos receiving = path.cpu_to_receive(reply.length);
  co_await worker_.compute(receiving);
  kv::OpResult result = result_of(op, reply);
  if (store_.settings_.keeps_copies) keep_copy(op, value, result);
  co_return result;
}

kv::OpResult ModelStore::Client::result_of(OpKind op, const rpc::Reply& reply) const {
  kv::OpResult result;
  result.retries = reply.retries;
  ParsedReply parsed;
  const bool is_known =
      parse_reply(store_.settings_.system, op, store_.kept_text(reply.data, reply.length), parsed);
  if (!is_known) {
    result.status = kv::OpStatus::error;
    if (op != OpKind::get) result.effect = kv::Effect::unknown;
    return result;
  }
  result.status = parsed.status;
  if (op == OpKind::get && parsed.status == kv::OpStatus::ok) {
    const std::uint32_t kept = std::min(parsed.value_size, store_.settings_.config.kept_value_bytes);
    result.value = {reply.data + parsed.value_at, parsed.value_size, kept};
  }
  return result;
}

void ModelStore::Client::keep_copy(OpKind op, kv::ValueView put, const kv::OpResult& result) {
  if (result.status != kv::OpStatus::ok) {
    copies_.erase(key_);
    return;
  }
  const kv::ValueView& value = op == OpKind::get ? result.value : put;
  if (op == OpKind::remove || value.kept != value.size) {
    copies_.erase(key_);
  } else {
    copies_[key_] = text_of(value.data, value.size);
  }
}

ModelStore::ModelStore(Settings settings, bool only_echoes)
    : settings_(std::move(settings)),
      only_echoes_(only_echoes),
      path_(kernel_path(settings_.link)),
      shape_(shape_of(settings_)),
      links_(settings_.config.nodes),
      regions_(settings_.config.nodes),
      servers_(settings_.servers) {}

ModelStore::~ModelStore() = default;

Result<> ModelStore::setup_node(fabric::Fabric& fabric, fabric::NodeId node) {
  if (!settings_.given.empty() || !settings_.binary.empty()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--{}: on sim the servers are modelled; for --fabric shm",
                            settings_.flag(settings_.given.empty() ? "binary" : "address")));
  }
  if (settings_.servers != settings_.config.serving_nodes()) {
    return fail(ErrorCode::unsupported,
                fmt::format("--{}: {}; on sim each of the {} nodes that serve has one",
                            settings_.flag("servers"), settings_.servers, settings_.config.serving_nodes()));
  }
  LOCH_ASSIGN(regions_.at(node), rpc::register_messages(fabric, node, shape_));
  return {};
}

Result<> ModelStore::connect(fabric::Fabric& /*fabric*/) { return {}; }

Result<> ModelStore::preload(fabric::Fabric& /*fabric*/, const kv::Dataset& data) {
  std::vector<std::byte> key(settings_.config.key_size), value(settings_.config.kept_value_bytes);
  std::string text;
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    data.key(i, key.data());
    const std::uint32_t size = data.value_size(i, settings_.config.value_size);
    const std::uint32_t kept = std::min(size, settings_.config.kept_value_bytes);
    data.value(i, value.data(), kept);
    const kv::Key record{key.data(), data.key_size(i, settings_.config.key_size)};
    write_key_text(settings_.system, record, text);
    servers_[settings_.server_of(record)].table[text] = {std::string(text_of(value.data(), kept)), size};
  }
  return {};
}

std::string_view ModelStore::kept_text(const std::byte* message, std::uint32_t length) const {
  return text_of(message, std::min(length, shape_.kept_bytes));
}

Nanos ModelStore::work_cpu(const fabric::CpuCosts& costs, const Table& table,
                           const ParsedRequest& request) const {
  // Size of the value that is copied. Copying is charged in addition, because beyond_echo() was measured with
  // small values.
  std::uint32_t value = brings_value(request.op) ? request.value_size : settings_.config.value_size;
  if (const auto item = table.find(std::string(request.key_text));
      request.op == OpKind::get && item != table.end())
    value = item->second.size;
  if (settings_.only_echoes) return 0;  // the modelled TCP already charges for the bytes of an echo
  return beyond_echo(settings_.system, request.op) + costs.copy(value);
}

std::uint32_t ModelStore::execute(Table& table, const ParsedRequest& request, const std::byte* message,
                                  std::byte* reply) {
  const System system = settings_.system;
  std::string head;
  auto status = kv::OpStatus::ok;
  const Item* found = nullptr;
  const std::string key(request.key_text);
  switch (request.op) {
    case OpKind::get: {
      const auto item = table.find(key);
      if (item != table.end()) found = &item->second;
      if (found == nullptr) status = kv::OpStatus::not_found;
      break;
    }
    case OpKind::insert_if_absent:
      if (table.contains(key)) {
        status = kv::OpStatus::exists;
        break;
      }
      [[fallthrough]];
    case OpKind::put: {
      const std::uint32_t kept = std::min(request.value_size, settings_.config.kept_value_bytes);
      table[key] = {std::string(text_of(message + request.value_at, kept)), request.value_size};
      break;
    }
    case OpKind::remove:
      if (table.erase(key) == 0) status = kv::OpStatus::not_found;
      break;
    case OpKind::lost:  // clients send no such request
      LOCH_CHECK(false);
  }
  append_reply(system, request.op, status, key, found != nullptr ? found->size : 0, head);
  copy_text(head, reply);
  if (found == nullptr) return static_cast<std::uint32_t>(head.size());
  copy_text(found->kept, reply + head.size());
  const std::string_view end = reply_end(system);
  if (found->kept.size() == found->size) copy_text(end, reply + head.size() + found->size);
  return static_cast<std::uint32_t>(head.size() + found->size + end.size());
}

std::uint32_t ModelStore::answer(Server& server, const ParsedRequest& request, const std::byte* message,
                                 std::byte* reply) {
  if (only_echoes_) {
    std::string done;
    append_reply(settings_.system, OpKind::put, kv::OpStatus::ok, "", 0, done);
    copy_text(done, reply);
    return static_cast<std::uint32_t>(done.size());
  }
  if (!settings_.writes_behind) return execute(server.table, request, message, reply);
  Table late = std::exchange(server.behind, {});
  Table& table = request.op == OpKind::put ? server.behind : server.table;
  const std::uint32_t length = execute(table, request, message, reply);
  for (auto& [key, item] : late) server.table[key] = std::move(item);
  return length;
}

coro::Task<void> ModelStore::serve(fabric::Worker& worker, std::uint32_t index) {
  Server& own = servers_[worker.node()];
  rpc::MessageServer server(shape_, regions_[worker.node()], worker, index, own.memories[index]);
  while (true) {
    const rpc::Incoming request = co_await server.next();
    if (request.outcome != rpc::Incoming::Outcome::request) break;
    const Nanos receiving = path_.cpu_to_receive(request.length);
    co_await worker.compute(receiving);
    std::byte* const reply = co_await server.reply_buffer();
    ParsedRequest parsed;
    if (!parse_request(settings_.system, kept_text(request.data, request.length), parsed)) {
      ++own.unintelligible;
      server.drop(request);
      continue;
    }
    const Nanos working = only_echoes_ ? 0 : work_cpu(worker.costs(), own.table, parsed);
    co_await worker.compute(working);
    const std::uint32_t length = answer(own, parsed, request.data, reply);
    const Nanos sending = path_.cpu_to_send(length);
    co_await worker.compute(sending);
    server.reply(request, length);
  }
  co_await server.close();
  own.served += server.counters().served;
  own.duplicates += server.counters().duplicates;
}

std::unique_ptr<kv::Client> ModelStore::client(fabric::Worker& worker, std::uint32_t slot) {
  const std::lock_guard lock(clients_mutex_);  // threads of one simulation begin clients of different nodes
  auto& channel = clients_[std::uint32_t{worker.node()} << 16 | worker.index()];
  if (channel == nullptr)
    channel = std::make_unique<rpc::MessageClient>(shape_, regions_[worker.node()], worker);
  return std::make_unique<Client>(*this, worker, *channel, slot);
}

std::map<std::string, double> ModelStore::counters() const {
  std::uint64_t retries = 0;
  for (const auto& [who, channel] : clients_) retries += channel->counters().retries;
  std::uint64_t served = 0, unintelligible = 0, duplicates = 0;
  for (const Server& server : servers_) {
    served += server.served;
    unintelligible += server.unintelligible;
    duplicates += server.duplicates;
  }
  const auto key = [&](std::string_view what) { return settings_.flag(what); };
  return {{key("modelled"), 1},
          {key("served"), static_cast<double>(served)},
          {key("retries"), static_cast<double>(retries)},
          {key("duplicates"), static_cast<double>(duplicates)},
          {key("unintelligible"), static_cast<double>(unintelligible)}};
}

std::string ModelStore::transport() const {
  return fmt::format("modelled tcp over {}", name(settings_.link));
}

}  // namespace loch::baselines
