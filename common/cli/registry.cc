#include "common/cli/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#ifdef LOCH_HAVE_NESSIE
#include "nessie/module.h"
#endif

namespace loch::cli {

kv::Registry make_registry() {
  kv::Registry registry;
#ifdef LOCH_HAVE_NESSIE
  registry.emplace("nessie", nessie::make_module());
#endif
  return registry;
}

const std::vector<std::string>& protocol_names() {
  static const std::vector<std::string> all = {"nessie",   "nessie-sd",  "nessie-hy",   "pilaf",   "pilaf-vo",
                                               "herd",     "farm-em",    "farm-em-var", "drtm-em", "seq-rpc",
                                               "seq-spec", "seq-atomic", "memcached",   "redis"};
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
