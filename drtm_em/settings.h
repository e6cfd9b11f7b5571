// Settings of a DrTM-em deployment, derived from its options.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/cuckoo/hash_family.h"
#include "common/kv/protocol.h"
#include "common/kv/variants.h"
#include "common/rpc/posting.h"
#include "drtm_em/layout.h"

namespace loch::drtm {

enum class Atomics : std::uint8_t { cas, faa };

inline constexpr std::array<kv::KnownBad, 2> known_bad = {{
    {"steals-locks", "the lock's CAS expects what it last found there, another's lock too", 1},
    {"adds-by-write", "the state is READ and WRITTEN back plus one, not added to", 1},
}};
using Fault = kv::Flaw<known_bad>;

struct Settings {
  kv::DeployConfig config;
  ItemLayout item;
  // a family of one hash function, which gives the address of a key's item; a real client would have the
  // address in its cache
  cuckoo::HashFamily family;
  rpc::PostingShape posting;
  Atomics atomics = Atomics::faa;
  // atomics=faa: whether the two additions of a PUT are posted together; if not, the second is posted after
  // the first has completed.
  bool adds_together = false;
  std::uint32_t attempts = 1;  // attempts to lock an item before a conflict is returned
  Nanos backoff_start = 0, backoff_cap = 0;
  Nanos patience = 0;
  Fault fault;  // none, or the known-bad variant

  [[nodiscard]] std::uint64_t items_per_node() const { return family.shape().slots_per_node; }
  [[nodiscard]] std::uint32_t lanes() const { return config.client_workers * config.window; }
};

[[nodiscard]] std::vector<kv::OptionSpec> option_specs();
// Derives the settings from the options. An impossible combination is an error of one line that names the
// option.
[[nodiscard]] Result<std::unique_ptr<const Settings>> decide(const kv::DeployConfig& config,
                                                             const kv::Options& options,
                                                             std::string_view mutant);

}  // namespace loch::drtm
