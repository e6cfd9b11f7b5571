// Derives and checks the options and sizes of FaRM-em.
#include "farm_em/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/kv/checks.h"

namespace loch::farm {
namespace {

using kv::refuse;

Result<> check_shape(const std::string& name, const kv::DeployConfig& config) {
  if (config.nodes == 0 || config.client_workers == 0 || config.window == 0) {
    return refuse(fmt::format("clients: {} needs at least 1 client worker and a window of at least 1", name));
  }
  if (config.server_workers == 0) {
    return refuse(fmt::format("servers: {} needs at least 1 server worker a node, which answers PUTs", name));
  }
  if (config.key_size < 8 || config.key_size > 4096)
    return refuse(fmt::format("key-size: {} bytes; expected 8 to 4096", config.key_size));
  if (config.value_size == 0 || config.value_size > (1U << 30))
    return refuse(
        fmt::format("value-size: {} bytes do not fit a bucket; expected 1 to 1G", config.value_size));
  return {};
}

Fault fault_of(std::string_view mutant) {
  if (mutant == "executes-repeated") return Fault::executes_repeated;
  if (mutant == "trusts-trailer") return Fault::trusts_trailer;
  return Fault::none;
}

}  // namespace

std::vector<kv::OptionSpec> option_specs(const std::string& prefix) {
  using kv::OptionType;
  return {
      {prefix + ".numbered-puts",
       OptionType::boolean,
       "true",
       "PUTs are numbered, sent again and executed once (fixes F1); false: as published (HERD 2014, 5.1), "
       "S_K + S_V bytes and one byte back",
       {}},
      {prefix + ".transport",
       OptionType::choice,
       "uc",
       "of numbered PUTs: uc, as published, or rc, for devices without UC (the result says over RC)",
       {"uc", "rc"}},
      {prefix + ".fill", OptionType::real, "0.5", "share of the buckets that keys fill", {}, 0.01, 1},
      {prefix + ".lanes",
       OptionType::integer,
       "1",
       "RC queue pairs of a client worker to each node",
       {},
       1,
       16},
      {prefix + ".posting-list",
       OptionType::integer,
       "1",
       "READs behind one doorbell, at most (HERD 2014 posts one by one)",
       {},
       1,
       4096},
      {prefix + ".signal-every",
       OptionType::integer,
       "32",
       "one of so many READs asks for a completion (HERD 2014, 5.1: selective signaling)",
       {},
       1,
       4096},
      {prefix + ".retry-after",
       OptionType::duration,
       "1ms",
       "numbered: a PUT without an answer is sent again; published: it ends",
       {},
       1e3,
       1e12,
       "20ms"},
      {prefix + ".patience",
       OptionType::duration,
       "10s",
       "an operation without an answer ends, and the longest that a node is tried to be reached anew",
       {},
       1e3,
       1e12},
  };
}

Result<std::unique_ptr<const Settings>> decide(Form form, const kv::DeployConfig& config,
                                               const kv::Options& options, std::string_view mutant) {
  const std::string prefix = form == Form::inlined ? "farm-em" : "farm-em-var";
  LOCH_TRY(check_shape(prefix, config));
  const auto number = [&](const char* name) {
    return static_cast<std::uint32_t>(options.integer(prefix + "." + name));
  };
  const std::uint32_t holders = config.serving_nodes();
  const double keys_per_node = static_cast<double>(std::max<std::uint64_t>(config.max_keys, 1)) / holders;
  const auto slots = static_cast<std::uint64_t>(std::ceil(keys_per_node / options.real(prefix + ".fill")));
  const cuckoo::Shape shape{.nodes = holders, .slots_per_node = slots, .functions = 1};
  auto settings = std::make_unique<Settings>(Settings{.config = config,
                                                      .prefix = prefix,
                                                      .layout = {form, config.key_size, config.value_size},
                                                      .family = cuckoo::HashFamily(shape, config.seed)});
  settings->posting = {.list_most = number("posting-list"),
                       .signal_every = number("signal-every"),
                       .lanes = static_cast<std::uint8_t>(number("lanes"))};
  settings->puts = options.boolean(prefix + ".numbered-puts") ? Puts::numbered : Puts::published;
  if (options.choice(prefix + ".transport") == "rc") settings->transport = fabric::Transport::rc;
  if (settings->transport == fabric::Transport::rc && settings->puts == Puts::published) {
    return refuse(
        fmt::format("--{0}.transport rc: published PUTs go over UC; --{0}.numbered-puts true", prefix));
  }
  settings->retry_after = options.integer(prefix + ".retry-after");
  settings->patience = options.integer(prefix + ".patience");
  settings->fault = fault_of(mutant);
  const Layout& layout = settings->layout;
  std::uint64_t need = layout.bucket_elision(config.kept_value_bytes).physical_bytes(settings->index_bytes());
  if (form == Form::variable) {
    need += layout.value_elision(config.kept_value_bytes)
                .physical_bytes(settings->values_per_node() * config.value_size);
  }
  LOCH_TRY(kv::check_memory(config, need));
  return settings;
}

}  // namespace loch::farm
