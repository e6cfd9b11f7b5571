// What the modules of protocols with several variants (known-bad ones, or a published and a hardened one)
// have in common.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/kv/checks.h"
#include "common/kv/protocol.h"

namespace loch::kv {

// A known-bad variant, and the value of Flaw that selects it in the protocol's settings.
template <typename Flaw>
struct NamedFlaw {
  std::string_view name;
  Flaw flaw;
  Mutant mutant;
};
template <typename Flaw>
[[nodiscard]] std::map<std::string, Mutant> mutants_of(const std::vector<NamedFlaw<Flaw>>& flaws) {
  std::map<std::string, Mutant> all;
  for (const NamedFlaw<Flaw>& each : flaws) all.emplace(each.name, each.mutant);
  return all;
}
// The Flaw of the known-bad variant called `name`; Flaw::none if the name is empty.
template <typename Flaw>
[[nodiscard]] Result<Flaw> flaw_of(std::string_view protocol, std::string_view name,
                                   const std::vector<NamedFlaw<Flaw>>& flaws) {
  if (name.empty()) return Flaw::none;
  for (const NamedFlaw<Flaw>& each : flaws) {
    if (each.name == name) return each.flaw;
  }
  return refuse(fmt::format("mutant: {} has none named {}", protocol, name));
}

// The holes (known faults) of a published design. `published`: the options that select the published variant.
// Each hole that has a seed gets these options and the fixes of all other holes, so that it is the only open
// one.
[[nodiscard]] std::vector<Hole> single_holes(const Module& module,
                                             const std::map<std::string, std::string>& published,
                                             const std::map<std::string, std::uint64_t>& seeds);
// Support for INSERT as a PUT that changes nothing if it finds the key. If the variant has no INSERT
// (`is_there` is false), `why_not` is the reason.
[[nodiscard]] DataSupport insert_by_put(bool is_there, std::string_view why_not);

}  // namespace loch::kv
