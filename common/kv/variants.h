// What the modules of protocols with several variants (known-bad ones, or a published and a hardened one)
// have in common.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/kv/checks.h"
#include "common/kv/protocol.h"

namespace loch::kv {

// A known-bad variant in a protocol's table of them; see Mutant for the fields.
struct KnownBad {
  std::string_view name, breaks;
  std::uint64_t first_seed = 0;
  std::string_view found_by = {};
};

// Which known-bad variant of the protocol's table `all` a deployment is; by default none.
template <const auto& all>
class Flaw {
 public:
  constexpr Flaw() = default;
  // The variant of this name; a name that the table does not have is a compile error.
  consteval Flaw(const char* name) : number_(find(name)) { static_cast<void>(all.at(number_)); }
  // The variant that the user named; none if the name is empty.
  [[nodiscard]] static Result<Flaw> named(std::string_view protocol, std::string_view name) {
    Flaw flaw;
    if (name.empty()) return flaw;
    flaw.number_ = find(name);
    if (flaw.number_ == all.size()) return refuse("mutant: {} has none named {}", protocol, name);
    return flaw;
  }
  // The whole table, as Module::mutants() gives it.
  [[nodiscard]] static std::map<std::string, Mutant> mutants() {
    std::map<std::string, Mutant> out;
    for (const KnownBad& each : all)
      out.emplace(each.name, Mutant{std::string(each.breaks), each.first_seed, std::string(each.found_by)});
    return out;
  }
  friend bool operator==(Flaw, Flaw) = default;

 private:
  [[nodiscard]] static constexpr std::size_t find(std::string_view name) {
    std::size_t number = 0;
    while (number < all.size() && all[number].name != name) ++number;
    return number;
  }
  std::size_t number_ = all.size();
};

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
