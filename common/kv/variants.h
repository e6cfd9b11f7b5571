// What the modules of protocols with known-bad variants, or with a published variant and a hardened one, have
// in common.
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

// A known-bad variant, and the value by which the protocol's settings know it.
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
// The variant of this name; Flaw::none of the empty one.
template <typename Flaw>
[[nodiscard]] Result<Flaw> flaw_of(std::string_view protocol, std::string_view name,
                                   const std::vector<NamedFlaw<Flaw>>& flaws) {
  if (name.empty()) return Flaw::none;
  for (const NamedFlaw<Flaw>& each : flaws) {
    if (each.name == name) return each.flaw;
  }
  return refuse(fmt::format("mutant: {} has none named {}", protocol, name));
}

// The holes of a published design. `published`: the options of its variant. Each hole that has a seed is the
// only open one under these options and the fixes of all others.
[[nodiscard]] std::vector<Hole> single_holes(const Module& module,
                                             const std::map<std::string, std::string>& published,
                                             const std::map<std::string, std::uint64_t>& seeds);
// INSERT as a PUT that ends where it finds the key; or `why_not` the variant has none.
[[nodiscard]] DataSupport insert_by_put(bool is_there, std::string_view why_not);

}  // namespace loch::kv
