// The settings of one deployment of NessieHY: those of its tables, and how GETs read the tables.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/coupled/settings.h"

namespace loch::nessie_hy {

constexpr const char* protocol = "nessie-hy";

struct Settings {
  coupled::Settings table;
  std::uint64_t cache_entries = 0;  // cached entries per node; 0: no cache
  // whether a GET READs an entry's header before its value ("multiple reads", Nessie 2017, section 4.3.2)
  bool reads_header_first = false;
  // how a GET notices that the data of its READs has arrived: by polling a bit of the data's last word, the
  // watermark (true), or by completion queue entries (false)
  bool polls_watermarks = true;
  Nanos expiry = 0;  // expiry period in ns: an index word that was read longer ago is not used
  // whether a GET that found nothing READs its candidates again in reverse order (false: mutant)
  bool verifies_misses = true;
  bool honours_expiry = true;  // whether GETs give up when what they read is too old (false: mutant)
  bool polls_tail_unordered = false;
  bool takes_void = false;  // mutant: an index word that was never initialised counts as EMPTY
  // mutant: a GET continues after the node that it READs restarted with empty memory
  bool goes_on_reborn = false;
  bool caches_for_ever = false;  // mutant: a cached entry is used however old its index word is
  // mutant: an entry's key is not compared again when its value is READ separately
  bool trusts_second_read = false;
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs();
[[nodiscard]] std::map<std::string, kv::Mutant> known_mutants();
[[nodiscard]] std::vector<kv::Fix> known_fixes(const kv::Options& options);
[[nodiscard]] std::vector<kv::Hole> known_holes();
// Computes the settings; refuses impossible combinations with a one-line error that names the flag.
[[nodiscard]] Result<Settings> decide(const kv::DeployConfig& config, const kv::Options& options,
                                      std::string_view mutant);

}  // namespace loch::nessie_hy
