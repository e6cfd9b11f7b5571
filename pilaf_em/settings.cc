// Options and sizes of Pilaf, and checks that the sizes fit in memory.
#include "pilaf_em/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/rng.h"
#include "common/kv/checks.h"
#include "pilaf_em/layout.h"

namespace loch::pilaf {
namespace {

using kv::refuse;

Result<> check_shape(const kv::DeployConfig& config) {
  if (config.nodes == 0 || config.nodes > 65535)
    return refuse(fmt::format("nodes: {}; expected 1 to 65535", config.nodes));
  if (config.server_nodes >= config.nodes)
    return refuse(
        fmt::format("server-nodes: {} leave no node of {} to drive load", config.server_nodes, config.nodes));
  if (config.client_workers == 0 || config.window == 0 || config.window > 256) {
    return refuse(fmt::format(
        "clients, window: {} and {}; expected at least 1 client worker and a window from 1 to 256",
        config.client_workers, config.window));
  }
  if (config.server_workers == 0) {
    return refuse("servers: a polling server worker executes PUTs; expected at least 1");
  }
  if (config.key_size == 0 || config.key_size > 4096)
    return refuse(fmt::format("key-size: {} bytes; expected 1 to 4096", config.key_size));
  if (config.value_size == 0 || config.value_size > (1U << 28))
    return refuse(fmt::format("value-size: {} bytes; expected 1 to 256M", config.value_size));
  return kv::check_preload(config);
}

// An upper bound, exceeded only with negligible probability, on the keys of the fullest shard; keys are
// assigned to shards by hash.
double keys_a_shard(const kv::DeployConfig& config, std::uint32_t shards) {
  const double mean = static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1)) / shards;
  const double spread = shards == 1 ? 0 : 4 * std::sqrt(mean);
  return std::min(mean + spread, static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1)));
}

std::uint64_t next_slots(double growth, std::uint64_t slots) {
  return static_cast<std::uint64_t>(growth * static_cast<double>(slots)) + 1;
}

void size_table(const kv::Options& options, double keys, Settings& s) {
  s.table_growth = options.real("pilaf.table-growth");
  const auto asked = static_cast<std::uint64_t>(options.integer("pilaf.initial-slots"));
  const auto by_fill = static_cast<std::uint64_t>(std::ceil(keys / options.real("pilaf.fill")));
  s.first_slots = std::max<std::uint64_t>(asked != 0 ? asked : by_fill, s.hash_functions);
  std::uint64_t slots = s.first_slots;
  s.slots_reserved = slots;
  for (std::int64_t i = 0; i < options.integer("pilaf.table-growths"); ++i) {
    slots = next_slots(s.table_growth, slots);
    s.slots_reserved += slots;
  }
}

void size_extents(const kv::Options& options, double keys, Settings& s) {
  s.slack = options.real("pilaf.slack");
  s.capacity =
      static_cast<std::uint32_t>(s.capacity_for(std::uint64_t{s.config.key_size} + s.config.value_size));
  s.block = std::bit_ceil(std::uint64_t{s.capacity});
  // Extents of a deployment have similar sizes, so blocks smaller than an eighth of the largest are never
  // needed.
  s.least_block = std::max<std::uint64_t>(8, s.block / 8);
  const auto blocks = [&](double bytes) {
    const double count = std::ceil(bytes / static_cast<double>(s.block));
    return std::max<std::uint64_t>(static_cast<std::uint64_t>(count), 1) * s.block;
  };
  // Room for one extent more than there are keys, because a PUT that moves a value to a new extent holds the
  // old and the new one for a moment.
  const std::uint64_t need = blocks((std::ceil(keys) + 1) * static_cast<double>(s.block));
  const auto asked = static_cast<double>(options.integer("pilaf.extents-start"));
  s.extents_start = asked > 0 ? blocks(asked) : need;
  s.extents_most = std::max(s.extents_start, need) << options.integer("pilaf.extents-growths");
}

rpc::MessageShape message_shape(const kv::Options& options, const Settings& s) {
  const kv::DeployConfig& c = s.config;
  rpc::MessageShape shape;
  shape.name = "pilaf.messages";
  const std::string& transport = options.choice("pilaf.messages");
  shape.transport = transport == "rc"   ? fabric::Transport::rc
                    : transport == "uc" ? fabric::Transport::uc
                                        : fabric::Transport::ud;
  shape.nodes = c.nodes;
  shape.client_workers = c.client_workers;
  shape.window = c.window;
  shape.server_workers = c.server_workers;
  shape.server_nodes = c.server_nodes;
  shape.request_bytes = put_head + c.key_size + c.value_size;
  shape.reply_bytes = reply_head + (s.system == System::pilaf_vo ? c.value_size : 0);
  if (s.is_elided()) shape.kept_bytes = put_head + c.key_size + s.kept();
  shape.is_inline = options.boolean("pilaf.inline");
  shape.signals_every = options.choice("pilaf.signaling") == "every";
  shape.drops_duplicates = s.rules.drops_duplicates;
  shape.flaws = s.messages.flaws;
  shape.reply_timeout = options.integer("pilaf.reply-timeout");
  shape.patience = options.integer("pilaf.patience");
  shape.reconnect_timeout = s.reconnect_timeout;
  shape.first_number = static_cast<std::uint32_t>(options.integer("pilaf.first-number"));
  return shape;
}

void emulate(Settings& s, const kv::Options& options) {
  s.emulated_reads = options.real("pilaf.emulated-reads");
  // HERD's optimistic emulation of Pilaf (HERD 2014, section 5.1) assumes "an unreliable transport, inlining
  // and selective signaling".
  if (s.messages.transport == fabric::Transport::rc) s.messages.transport = fabric::Transport::uc;
  s.messages.is_inline = true;
  s.messages.signals_every = false;
  s.messages.request_bytes = s.config.key_size + s.config.value_size;
}

Result<> check_memory(const Settings& s) {
  const std::uint64_t limit = s.config.memory_bytes;
  if (limit == 0) return {};
  const std::uint64_t kept_extent = s.is_elided() ? s.config.key_size + s.kept() : s.block;
  const std::uint64_t shards_here = s.config.server_workers;
  const std::uint64_t need =
      shards_here * (s.slots_reserved * bucket_bytes + s.extents_most / s.block * kept_extent);
  if (need <= limit) return {};
  return refuse(fmt::format(
      "keys: {} keys with values of {} bytes take {} bytes of each of {} nodes (tables and extents, with "
      "pilaf.table-growths and pilaf.extents-growths), which have {}",
      s.config.max_keys, s.config.value_size, need, s.server_nodes, limit));
}

Result<> check_options(const Settings& s, const kv::Options& options, std::string_view protocol) {
  const bool is_published = options.choice("pilaf.variant") == "published";
  for (const char* fix : {"pilaf.mend-p1", "pilaf.mend-p2", "pilaf.mend-p3"}) {
    if (options.values().contains(std::string_view(fix)) && options.boolean(fix) && !is_published)
      return refuse(
          fmt::format("{}: fixes the published rules; expected pilaf.variant published alongside it", fix));
  }
  if (s.is_elided() && !s.log_path.empty()) {
    return refuse(
        "pilaf.log: a log needs whole values, and this simulation elides them; expected fewer or "
        "smaller ones");
  }
  if (s.system == System::em_opt && !s.log_path.empty())
    return refuse("pilaf.log: the emulation stores nothing; expected pilaf.variant fixed or published");
  if (s.repairs_log && s.log_path.empty())
    return refuse("pilaf.log-repair: there is no log to cut; expected pilaf.log alongside it");
  if (s.shards > 65535)
    return refuse(fmt::format("servers: {} of {} in all; expected at most 65535", s.shards, protocol));
  return {};
}

}  // namespace

std::uint32_t Settings::shard_of(kv::Key key) const {
  if (shards == 1) return 0;
  cuckoo::KeyHash hash = choosing.hash({key.data, key.size});
  return hash.candidate(0).node;
}

cuckoo::HashFamily Settings::family(std::uint64_t slots) const {
  return cuckoo::HashFamily({.nodes = 1, .slots_per_node = slots, .functions = hash_functions},
                            sub_seed(config.seed, "pilaf"));
}

System system_of(std::string_view protocol, const kv::Options& options) {
  if (protocol == "pilaf-vo") return System::pilaf_vo;
  return options.choice("pilaf.variant") == "em-opt" ? System::em_opt : System::pilaf;
}

Rules rules_of(const kv::Options& options) {
  Rules rules;
  if (options.choice("pilaf.variant") != "published") return rules;
  const auto chosen = [&](std::string_view key) {
    return options.values().contains(key) && options.boolean(key);
  };
  rules.confirms_misses = chosen("pilaf.mend-p1");
  rules.resets_rank = chosen("pilaf.mend-p2");
  rules.drops_duplicates = chosen("pilaf.mend-p3");
  return rules;
}

Result<std::unique_ptr<const Settings>> decide(std::string_view protocol, const kv::DeployConfig& config,
                                               const kv::Options& options, std::string_view mutant) {
  LOCH_TRY(check_shape(config));
  auto s = std::make_unique<Settings>();
  s->config = config;
  s->system = system_of(protocol, options);
  s->rules = rules_of(options);
  if (!mutant.empty() && !apply_mutant(mutant, s->rules, s->messages.flaws))
    return refuse(fmt::format("mutant: {} has none named {}", protocol, mutant));
  s->server_nodes = config.serving_nodes();
  s->hash_functions = static_cast<std::uint32_t>(options.integer("pilaf.hash-functions"));
  s->shards = s->server_nodes * config.server_workers;
  s->choosing = cuckoo::HashFamily({.nodes = std::max(s->shards, 1U), .slots_per_node = 1, .functions = 1},
                                   sub_seed(config.seed, "pilaf shard"));
  const double keys = keys_a_shard(config, s->shards);
  size_table(options, keys, *s);
  size_extents(options, keys, *s);
  s->hops = static_cast<std::uint32_t>(options.integer("pilaf.hops"));
  s->updates_in_place = options.choice("pilaf.update") == "in-place";
  s->guards_last = options.choice("pilaf.guard") == "last";
  s->attempts = static_cast<std::uint32_t>(options.integer("pilaf.attempts"));
  s->reconnect_timeout = options.integer("pilaf.reconnect-timeout");
  s->step_pause = options.integer("pilaf.step-pause");
  constexpr Nanos steps = 5;  // steps of a PUT that moves one other key
  if (s->step_pause > 0 && options.integer("pilaf.patience") < steps * s->step_pause) {
    return refuse(fmt::format(
        "pilaf.step-pause: {} between two of some {} steps of a PUT; expected pilaf.patience, {}, "
        "to be longer than all of them",
        format_duration(s->step_pause), steps, format_duration(options.integer("pilaf.patience"))));
  }
  s->log_path = options.text("pilaf.log");
  s->repairs_log = options.boolean("pilaf.log-repair");
  s->log_disk = static_cast<double>(options.integer("pilaf.log-disk"));
  const std::string& sync = options.choice("pilaf.log-sync");
  s->log_sync = sync == "async" ? LogSync::async : sync == "write" ? LogSync::write : LogSync::fsync;
  s->messages = message_shape(options, *s);
  if (s->system == System::em_opt) emulate(*s, options);
  LOCH_TRY(check_options(*s, options, protocol));
  LOCH_TRY(check_memory(*s));
  return std::unique_ptr<const Settings>(std::move(s));
}

}  // namespace loch::pilaf
