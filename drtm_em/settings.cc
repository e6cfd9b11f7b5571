// Derives and checks the options and sizes of DrTM-em.
#include "drtm_em/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/kv/checks.h"

namespace loch::drtm {
namespace {

using kv::refuse;

Result<> check_shape(const kv::DeployConfig& config) {
  LOCH_TRY(kv::check_client_driven("drtm-em", config));
  if (config.value_size == 0 || config.value_size > (1U << 30))
    return refuse(
        fmt::format("value-size: {} bytes do not fit an item; expected 1 to 1G", config.value_size));
  return {};
}

}  // namespace

std::vector<kv::OptionSpec> option_specs() {
  using kv::OptionType;
  return {
      {"drtm-em.atomics",
       OptionType::choice,
       "faa",
       "the two atomics of a PUT: faa, two FETCH_AND_ADDs that stand in for them, one after the other; "
       "faa-together, both posted at once (published code of guidelines 2016, 4.3.2); or cas, the lock taken "
       "and released (DrTM)",
       {"faa", "faa-together", "cas"}},
      {"drtm-em.lanes",
       OptionType::integer,
       "2",
       "queue pairs of a client worker to each node, used in turn (published code of 2016)",
       {},
       1,
       16},
      {"drtm-em.posting-list",
       OptionType::integer,
       "64",
       "work requests behind one doorbell, at most (published code of 2016: 64); 1: a doorbell each",
       {},
       1,
       4096},
      {"drtm-em.signal-every",
       OptionType::integer,
       "32",
       "one of so many work requests asks for a completion (published code of 2016: 32)",
       {},
       1,
       4096},
      {"drtm-em.attempts",
       OptionType::integer,
       "64",
       "cas: attempts to lock an item before a PUT reports a conflict",
       {},
       1,
       1e9},
      {"drtm-em.backoff-start",
       OptionType::duration,
       "2us",
       "cas: upper end of the first back-off from a held lock; doubles each time, full jitter",
       {},
       1,
       1e12},
      {"drtm-em.backoff-cap",
       OptionType::duration,
       "100us",
       "cas: largest upper end of a back-off",
       {},
       1,
       1e12},
      {"drtm-em.patience",
       OptionType::duration,
       "20ms",
       "how long an operation tries to reach a node anew",
       {},
       1,
       1e12},
  };
}

Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config, const kv::Options& options,
                                               std::string_view mutant) {
  LOCH_TRY(check_shape(config));
  const std::uint32_t holders = config.serving_nodes();
  const std::uint64_t items = (std::max<std::uint64_t>(config.max_keys, 1) + holders - 1) / holders;
  const cuckoo::Shape shape{.nodes = holders, .slots_per_node = items, .functions = 1};
  auto settings = std::make_unique<Settings>(Settings{.config = config,
                                                      .item = {config.key_size, config.value_size},
                                                      .family = cuckoo::HashFamily(shape, config.seed)});
  const std::uint64_t need =
      settings->item.elision(config.kept_value_bytes).physical_bytes(items * settings->item.bytes());
  if (config.memory_bytes != 0 && need > config.memory_bytes) {
    return refuse(fmt::format("keys: {} items of {} bytes take {} bytes of each of {} nodes, which have {}",
                              items, settings->item.bytes(), need, holders, config.memory_bytes));
  }
  settings->posting = {.list_most = static_cast<std::uint32_t>(options.integer("drtm-em.posting-list")),
                       .signal_every = static_cast<std::uint32_t>(options.integer("drtm-em.signal-every")),
                       .lanes = static_cast<std::uint8_t>(options.integer("drtm-em.lanes"))};
  settings->atomics = options.choice("drtm-em.atomics") == "cas" ? Atomics::cas : Atomics::faa;
  settings->adds_together = options.choice("drtm-em.atomics") == "faa-together";
  settings->attempts = static_cast<std::uint32_t>(options.integer("drtm-em.attempts"));
  settings->backoff_start = options.integer("drtm-em.backoff-start");
  settings->backoff_cap = options.integer("drtm-em.backoff-cap");
  LOCH_TRY(kv::check_backoff("drtm-em", options));
  settings->patience = options.integer("drtm-em.patience");
  LOCH_ASSIGN(settings->fault, Fault::named("drtm-em", mutant));
  if (settings->fault == "steals-locks") settings->atomics = Atomics::cas;
  if (settings->fault == "adds-by-write") settings->atomics = Atomics::faa;
  return settings;
}

}  // namespace loch::drtm
