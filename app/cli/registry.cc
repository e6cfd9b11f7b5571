// The protocols of this build by name, and the error messages for unknown names of protocols and fabrics.
#include "app/cli/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/nearest.h"
#include "common/kv/protocols.h"

namespace loch::cli {

kv::Registry make_registry() {
  std::vector<std::unique_ptr<kv::Module>> modules;
  kv::add_protocols(modules);
  kv::Registry registry;
  for (auto& module : modules) {
    const std::string name(module->name());
    LOCH_CHECK(registry.emplace(name, std::move(module)).second, "two protocols are called {}", name);
  }
  return registry;
}

const std::vector<std::string>& fabric_names() {
  static const std::vector<std::string> all = {"sim", "shm", "verbs", "ofi"};
  return all;
}

Result<const kv::Module*> find_protocol(const kv::Registry& registry, std::string_view name) {
  if (const auto found = registry.find(name); found != registry.end()) return found->second.get();
  std::vector<std::string> names;
  for (const auto& [each, module] : registry) names.push_back(each);
  const std::string near = nearest(name, names);
  return fail(ErrorCode::invalid_argument,
              fmt::format("protocol: \"{}\" is no protocol; {}", name,
                          near.empty() ? fmt::format("expected one of {}", fmt::join(names, ", "))
                                       : fmt::format("did you mean {}?", near)));
}

Result<> find_fabric(std::string_view name) {
  const auto& names = fabric_names();
  if (std::ranges::find(names, name) != names.end()) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("fabric: \"{}\" is not one of {}", name, fmt::join(names, ", ")));
}

}  // namespace loch::cli
