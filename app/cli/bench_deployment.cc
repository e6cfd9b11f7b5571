// Derives the deployment of a bench run from its flags, and refuses bad deployments before a fabric is
// opened.
#include <fmt/format.h>

#include "app/cli/bench_options.h"
#include "common/base/output_place.h"
#include "workloads/run.h"

namespace loch::cli {

kv::DeployConfig deploy_config(const BenchOptions& o) {
  kv::DeployConfig config;
  config.nodes = o.nodes;
  config.client_workers = o.clients;
  config.server_workers = o.servers;
  config.window = o.window * o.load.multi_get;
  config.key_size = o.key_size;
  config.value_size = o.value_size;
  config.keys = o.keys;
  config.max_keys = o.max_keys;
  config.kept_value_bytes = o.kept_value_bytes;
  config.memory_bytes = o.memory_bytes;
  config.seed = o.load.seed;
  config.server_nodes = o.server_nodes;
  // The duration of a load of a fixed number of operations is unknown in advance.
  config.load_time = o.load.duration > 0 ? o.load.warmup + o.load.duration : fabric::forever;
  return config;
}

workloads::Records::Shape record_shape(const BenchOptions& o) {
  return {.preloaded = o.keys,
          .most = o.max_keys,
          .key_size = o.key_size,
          .value_size = o.value_size,
          .order = o.key_order,
          .zero_padding = o.zero_padding,
          .key_sizes = o.key_sizes,
          .value_sizes = o.value_sizes,
          .table = o.load.replay ? o.load.replay->trace->sizes() : nullptr};
}

Result<> validate(const BenchOptions& o, const kv::Module& module) {
  for (const auto& [flag, path] : {std::pair{"json", &o.json}, std::pair{"histogram", &o.histogram},
                                   std::pair{"trace", &o.trace}, std::pair{"history", &o.history}}) {
    if (path->empty()) continue;
    if (const std::string why = why_no_output(*path); !why.empty()) {
      return fail(ErrorCode::invalid_argument, fmt::format("--{}: {}: {}", flag, *path, why));
    }
  }
  LOCH_TRY(workloads::Records::make(record_shape(o)));
  LOCH_ASSIGN(const kv::SlotUse use, workloads::slots_of(module, o.protocol_options, record_shape(o)));
  if (!o.load.replay) LOCH_TRY(workloads::make_chooser(o.load.distribution, o.keys, o.max_keys - o.keys));
  if (o.load.conflicts && module.requirements(o.protocol_options).atomic_scope == fabric::AtomicScope::none) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--backoff {}: {} swaps no word of another node; expected own", o.backoff,
                            module.name()));
  }
  for (const char* key : {".backoff-start", ".backoff-cap"}) {
    const std::string own = std::string(module.name()) + key;
    if (o.load.conflicts && o.protocol_options.is_given(own))
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("--{}: has no effect beside --backoff {}; expected --backoff own", own, o.backoff));
  }
  if (o.load.multi_get > 1 && o.load.multi_get > o.keys) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--multi-get {}: expected at most as many as --keys, {}", o.load.multi_get, o.keys));
  }
  if (o.load.multi_get > 1 && !module.data(o.protocol_options).multi_get) {
    return fail(ErrorCode::invalid_argument, fmt::format("--multi-get {}: {} takes one key a GET; expected 1",
                                                         o.load.multi_get, module.name()));
  }
  const kv::InsertSupport inserts = module.data(o.protocol_options).insert_if_absent;
  if (o.load.mix.insert_if_absent > 0 && !inserts.is_there) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("--insert-if-absent {:g}: {} has GET, PUT and DELETE alone: {}",
                            o.load.mix.insert_if_absent, module.name(), inserts.how));
  }
  LOCH_TRY(module.deploy(kv::slotted(deploy_config(o), use), o.protocol_options, o.mutant));
  return {};
}

}  // namespace loch::cli
