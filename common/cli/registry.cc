#include "common/cli/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#ifdef LOCH_HAVE_BASELINES
#include "baselines/module.h"
#endif
#ifdef LOCH_HAVE_DRTM_EM
#include "drtm_em/module.h"
#endif
#ifdef LOCH_HAVE_FARM_EM
#include "farm_em/module.h"
#endif
#ifdef LOCH_HAVE_HERD_EM
#include "herd_em/module.h"
#endif
#ifdef LOCH_HAVE_NESSIE
#include "nessie/module.h"
#endif
#ifdef LOCH_HAVE_NESSIE_HY
#include "nessie_hy/module.h"
#endif
#ifdef LOCH_HAVE_NESSIE_SD
#include "nessie_sd/module.h"
#endif
#ifdef LOCH_HAVE_PILAF_EM
#include "pilaf_em/module.h"
#endif
#ifdef LOCH_HAVE_SEQUENCER
#include "sequencer/module.h"
#endif

namespace loch::cli {

kv::Registry make_registry() {
  std::vector<std::unique_ptr<kv::Module>> modules;
#ifdef LOCH_HAVE_NESSIE
  nessie::add_modules(modules);
#endif
#ifdef LOCH_HAVE_NESSIE_SD
  nessie_sd::add_modules(modules);
#endif
#ifdef LOCH_HAVE_NESSIE_HY
  nessie_hy::add_modules(modules);
#endif
#ifdef LOCH_HAVE_PILAF_EM
  pilaf::add_modules(modules);
#endif
#ifdef LOCH_HAVE_HERD_EM
  herd::add_modules(modules);
#endif
#ifdef LOCH_HAVE_FARM_EM
  farm::add_modules(modules);
#endif
#ifdef LOCH_HAVE_DRTM_EM
  drtm::add_modules(modules);
#endif
#ifdef LOCH_HAVE_SEQUENCER
  sequencer::add_modules(modules);
#endif
#ifdef LOCH_HAVE_BASELINES
  baselines::add_modules(modules);
#endif
  kv::Registry registry;
  for (auto& module : modules) {
    const std::string name(module->name());
    LOCH_CHECK(registry.emplace(name, std::move(module)).second, "two protocols are called {}", name);
  }
  return registry;
}

const std::vector<std::string>& protocol_names() {
  static const std::vector<std::string> all = {
      "nessie",    "nessie-sd",   "nessie-hy",   "pilaf",      "pilaf-vo",     "herd",
      "farm-em",   "farm-em-var", "drtm-em",     "seq-rpc",    "seq-spec",     "seq-atomic",
      "memcached", "redis",       "micro-verbs", "micro-echo", "micro-atomic", "micro-cuckoo"};
  return all;
}

const std::vector<std::string>& fabric_names() {
  static const std::vector<std::string> all = {"sim", "shm", "verbs"};
  return all;
}

bool has_fabric(std::string_view name) {
#ifdef LOCH_HAVE_SIM
  if (name == "sim") return true;
#endif
#ifdef LOCH_HAVE_SHM
  if (name == "shm") return true;
#endif
#ifdef LOCH_HAVE_VERBS
  if (name == "verbs") return true;
#endif
  return false;
}

Result<const kv::Module*> find_protocol(const kv::Registry& registry, std::string_view name) {
  if (const auto found = registry.find(name); found != registry.end()) return found->second.get();
  const auto& names = protocol_names();
  if (std::ranges::find(names, name) != names.end()) {
    return fail(ErrorCode::unsupported, fmt::format("protocol: {}: this build does not have it", name));
  }
  const std::string near = kv::nearest(name, names);
  return fail(ErrorCode::invalid_argument,
              fmt::format("protocol: \"{}\" is no protocol; {}", name,
                          near.empty() ? fmt::format("expected one of {}", fmt::join(names, ", "))
                                       : fmt::format("did you mean {}?", near)));
}

Result<> find_fabric(std::string_view name) {
  const auto& names = fabric_names();
  if (std::ranges::find(names, name) == names.end()) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("fabric: \"{}\" is not one of {}", name, fmt::join(names, ", ")));
  }
  if (!has_fabric(name))
    return fail(ErrorCode::unsupported, fmt::format("fabric: {}: this build does not have it", name));
  return {};
}

}  // namespace loch::cli
