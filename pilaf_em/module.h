// Pilaf: GETs by one-sided READs of data with checksums, PUTs by messages to a polling server (Mitchell,
// Geng, Li, USENIX ATC 2013); Pilaf-VO, which uses messages for all operations; and HERD's optimistic
// emulation of Pilaf. docs/protocols/pilaf.md describes layouts, steps and rules.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::pilaf {

// Makes the module that is named "pilaf" or "pilaf-vo".
[[nodiscard]] std::unique_ptr<kv::Module> make_module(std::string_view name);
[[nodiscard]] std::map<std::string, kv::Mutant> mutants(std::string_view protocol);
// The first fuzzer seed that finds this hole (known fault) when all other holes are fixed.
[[nodiscard]] std::uint64_t hole_seed(std::string_view protocol, std::string_view hole);
// Adds pilaf and pilaf-vo to the registry's modules.
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::pilaf
