// Preloads the shards of this process's nodes directly in memory, before any worker runs, to the state that
// sequential PUTs would give; then replays the logs.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/fabric/memory.h"
#include "common/kv/preloading.h"
#include "pilaf_em/store.h"

namespace loch::pilaf {
namespace {

std::unexpected<Error> no_room(const Settings& s, std::uint32_t shard) {
  return fail(ErrorCode::exhausted,
              fmt::format("keys: server {} of node {} has no room for all of its keys; expected a smaller "
                          "pilaf.fill, or more pilaf.table-growths or pilaf.extents-growths",
                          s.server_of(shard), s.node_of(shard)));
}

// Replays a PUT record of the log.
Result<> replay_put(const Settings& s, ServerState& server, Log::Bytes key, Log::Bytes value) {
  // A log's header names its deployment's seed and key size; values may still exceed this deployment's value
  // size.
  if (key.size() > s.config.key_size || value.size() > s.config.value_size) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("holds a key of {} bytes with a value of {}; expected key-size and value-size to be "
                    "at least that",
                    key.size(), value.size()));
  }
  const auto size = static_cast<std::uint32_t>(value.size());
  const kv::ValueView view{value.data(), size, size};
  if (server.shard->put_now({.key = key, .value = view, .crc = crc_of(key, view)})) return {};
  return no_room(s, server.number);
}

}  // namespace

Result<> PilafStore::preload(fabric::Fabric& fabric, const kv::Dataset& data) {
  const Settings& s = *settings_;
  if (s.system == System::em_opt) return {};
  LOCH_CHECK_EQ(data.count(), s.config.keys);
  for (auto& [node, state] : nodes_) {
    for (std::size_t i = 0; i < state.servers.size(); ++i) {
      ServerState& server = *state.servers[i];
      server.shard = std::make_unique<Shard>(s, *server.table, *server.extents);
      fabric::store_word_release(state.membership->at(i * 8), static_cast<std::uint64_t>(Member::serves));
    }
  }
  const std::size_t threads = kv::preload_threads(fabric);
  LOCH_TRY(in_parallel(threads, threads,
                       [&, this](std::size_t part) { return preload_shards(fabric, data, part, threads); }));
  return s.log_path.empty() ? Result<>() : open_logs();
}

// Writes the records of those shards of this process whose number modulo `parts` is `part`, each shard's in
// the order of their numbers.
Result<> PilafStore::preload_shards(const fabric::Fabric& fabric, const kv::Dataset& data, std::size_t part,
                                    std::size_t parts) {
  const Settings& s = *settings_;
  std::vector<std::byte> key(s.config.key_size), value(s.kept());
  for (std::uint64_t i = 0; i < data.count(); ++i) {
    data.key(i, key.data());
    const std::span<const std::byte> own_key(key.data(), data.key_size(i, s.config.key_size));
    const std::uint32_t number = s.shard_of({key.data(), data.key_size(i, s.config.key_size)});
    if (number % parts != part || !fabric.is_local(s.node_of(number))) continue;
    const std::uint32_t size = data.value_size(i, s.config.value_size);
    const std::uint32_t kept = std::min(size, static_cast<std::uint32_t>(value.size()));
    data.value(i, value.data(), kept);
    const kv::ValueView view{value.data(), size, kept};
    if (!shard(number).put_now({.key = own_key, .value = view, .crc = crc_of(own_key, view)}))
      return no_room(s, number);
  }
  return {};
}

Result<> PilafStore::open_logs() {
  const Settings& s = *settings_;
  for (auto& [node, state] : nodes_) {
    for (std::uint32_t i = 0; i < state.servers.size(); ++i) {
      ServerState& server = *state.servers[i];
      const LogVisitor visitor{
          .put = [&](Log::Bytes key, Log::Bytes value) { return replay_put(s, server, key, value); },
          .remove =
              [&](Log::Bytes key) {
                server.shard->remove_now(key);
                return Result<>();
              }};
      const LogOwner owner{.node = node,
                           .server = i,
                           .nodes = s.server_nodes,
                           .servers = s.config.server_workers,
                           .key_size = s.config.key_size,
                           .seed = s.config.seed};
      const std::string path = fmt::format("{}.n{}.s{}", s.log_path, node, i);
      const Log::Options how{.sync = s.log_sync, .repairs = s.repairs_log};
      LOCH_ASSIGN(server.log, Log::open(*disk_, path, owner, how, visitor));
    }
  }
  return {};
}

}  // namespace loch::pilaf
