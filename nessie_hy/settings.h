// One deployment of NessieHY, decided: the tables' settings and how GETs read them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/coupled/settings.h"

namespace loch::nessie_hy {

constexpr const char* protocol = "nessie-hy";

struct Settings {
  coupled::Settings table;
  std::uint64_t cache_entries = 0;  // a node; 0: no cache
  bool reads_header_first = false;  // multiple reads (2017, 4.3.2)
  bool polls_watermarks = true;     // false: polls completion queue entries
  Nanos expiry = 0;                 // E: age at which a GET's READ is too old
  // Mutants.
  bool verifies_misses = true;  // the reverse pass
  bool honours_expiry = true;   // GETs look at the time
  bool polls_tail_unordered = false;
  bool takes_void = false;          // memory that nobody laid out counts as an EMPTY word
  bool goes_on_reborn = false;      // a GET goes on after its node came back with fresh memory
  bool caches_for_ever = false;     // a cached entry is used however old its word is
  bool trusts_second_read = false;  // the key of the second READ of two is not compared
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs();
[[nodiscard]] std::map<std::string, kv::Mutant> known_mutants();
[[nodiscard]] std::vector<kv::Fix> known_fixes(const kv::Options& options);
[[nodiscard]] std::vector<kv::Hole> known_holes();
// Refuses impossible combinations with one line that names the flag.
[[nodiscard]] Result<Settings> decide(const kv::DeployConfig& config, const kv::Options& options,
                                      std::string_view mutant);

}  // namespace loch::nessie_hy
