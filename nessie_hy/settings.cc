// Derives NessieHY's settings from its options, and lists its known-bad variants and the holes (known faults
// of the published design) that it fixes.
#include "nessie_hy/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/coupled/variants.h"
#include "common/cuckoo/index_word.h"
#include "common/kv/checks.h"
#include "common/kv/spare.h"

namespace loch::nessie_hy {
namespace {

using kv::refuse;

// Switches a known-bad variant on, which changes one rule of the tables, of the request channel, or of
// GETs.
Result<> apply_mutant(std::string_view mutant, coupled::Rules& rules, rpc::ChannelFlaws& flaws,
                      Settings& reading) {
  coupled::Switches switches = coupled::switches(rules, flaws);
  switches.insert({{"in-place-update", &rules.updates_in_place},
                   {"early-switch", &rules.switches_early},
                   {"immediate-reuse", &rules.reuses_at_once},
                   {"empty-not-unique", &rules.empty_repeats},
                   {"word-not-unique", &rules.word_repeats},
                   {"move-clears-first", &rules.clears_first},
                   {"reply-before-store", &rules.replies_early},
                   {"no-drift-margin", &rules.forgets_drift},
                   {"failed-swap-trusted", &rules.trusts_failed_swap},
                   {"words-begin-anew", &rules.words_restart},
                   {"tail-poll-without-order", &reading.polls_tail_unordered},
                   {"void-is-empty", &reading.takes_void},
                   {"reborn-get-goes-on", &reading.goes_on_reborn},
                   {"cached-for-ever", &reading.caches_for_ever},
                   {"second-read-unchecked", &reading.trusts_second_read}});
  if (coupled::switch_on(switches, mutant)) return {};
  if (mutant == "no-reverse-pass")
    reading.verifies_misses = false;
  else if (mutant == "no-time-check")
    reading.honours_expiry = false;
  else
    return coupled::no_such_mutant(protocol, mutant);
  return {};
}

bool header_first(const kv::Options& options, const kv::DeployConfig& config) {
  const std::string& mode = options.choice("nessie-hy.multi-read");
  if (mode == "auto") return config.value_size >= options.integer("nessie-hy.multi-read-size");
  return mode == "on";
}

}  // namespace

std::vector<kv::OptionSpec> option_specs() {
  using kv::OptionType;
  const auto choice = OptionType::choice;
  std::vector<kv::OptionSpec> specs = coupled::table_options(protocol);
  const std::vector<kv::OptionSpec> own = {
      {"nessie-hy.variant",
       choice,
       "hardened",
       "the index word of the 2017 text, with one EMPTY word, or unique EMPTY words "
       "(docs/protocols/nessie-hy.md)",
       {"hardened", "published"}},
      kv::fix_option("nessie-hy", "h2", "published with its one fix: unique EMPTY words (H2)"),
      {"nessie-hy.expiry",
       OptionType::duration,
       "1s",
       "expiry period E: age at which READs are too old and DTEs may be reused (2017, 4.3.1)",
       {},
       1e3,
       1e12,
       {},
       "100ms"},
      kv::spare_limit_option("nessie-hy"),
      {"nessie-hy.filter-bits",
       OptionType::integer,
       "0",
       "key-hash bits in the index word (2017, 4.3.2; HY has none); 0: none",
       {},
       0,
       static_cast<double>(cuckoo::IndexWord::most_filter_bits)},
      {"nessie-hy.cache",
       OptionType::boolean,
       "false",
       "LRU cache of remote entries on each node (2017, 4.1.3; HY has none)",
       {}},
      {"nessie-hy.cache-fraction",
       OptionType::real,
       "0.005",
       "capacity of a node's cache, as a share of the keys a node (2017, 6: 0.5 %)",
       {},
       0,
       1},
      {"nessie-hy.multi-read",
       choice,
       "off",
       "GETs READ the header first, then the entry (2017, 4.3.2; HY does not)",
       {"auto", "on", "off"}},
      {"nessie-hy.multi-read-size",
       OptionType::size,
       "64K",
       "bytes of value from which multi-read auto READs the header first",
       {},
       0,
       1e12},
      {"nessie-hy.completion",
       choice,
       "watermark",
       "how READs are noticed: polling the last byte (2017, 4.1.1), or completion queue entries",
       {"watermark", "cqe"}},
      {"nessie-hy.index-access",
       choice,
       "cpu",
       "how server workers access the index words of their own node: loads and stores, or READ and CAS "
       "through "
       "the NIC (2017, 4.1.1: all ITE accesses, even of local ITEs, are managed using RDMA)",
       {"cpu", "nic"}},
  };
  specs.insert(specs.end(), own.begin(), own.end());
  kv::give_role(specs, "nessie-hy.expiry", kv::OptionRole::expiry);
  kv::give_role(specs, "nessie-hy.cache", kv::OptionRole::cache);
  kv::give_role(specs, "nessie-hy.cache-fraction", kv::OptionRole::cache_share);
  kv::let_fuzz(specs, "nessie-hy.filter-bits", {"1", "3"});
  kv::let_fuzz(specs, "nessie-hy.multi-read", {"on"});
  kv::let_fuzz(specs, "nessie-hy.completion", {"cqe"});
  kv::let_fuzz(specs, "nessie-hy.index-access", {"nic"});
  return specs;
}

// The known-bad variants, each with a fuzzer seed that finds it (printed by `loch fuzz --mutants`, run by
// app/fuzz/mutants_test.cc).
std::map<std::string, kv::Mutant> known_mutants() {
  return {
      {"in-place-update", {"a PUT overwrites the value of an entry that clients READ", 1}},
      {"early-switch", {"the word is stored before its entry is written", 8}},
      {"immediate-reuse", {"an entry that left the index is used again at once", 1}},
      {"failed-swap-trusted",
       {"a CAS by the worker that ended in an error is taken for done (index-access nic)", 0,
        "nessie_hy_test"}},
      {"empty-not-unique", {"EMPTY is one constant: ABA on empty slots (H2)", 246}},
      {"move-clears-first", {"a move empties its source, then fills its target", 69}},
      {"reply-before-store", {"a PUT or DELETE is answered before its store", 5}},
      {"no-reverse-pass", {"a GET that finds nothing does not read the slots again", 15}},
      {"no-time-check", {"a GET takes an entry however long ago it read the word", 61}},
      {"no-duplicate-detection", {"a request that comes twice is executed twice (Q1)", 5}},
      {"trailer-without-order",
       {"a frame counts as here when its last word is, in whatever order it came", 68}},
      {"tail-poll-without-order",
       {"a DTE counts as here when its last byte is, in whatever order it came", 7}},
      {"word-not-unique", {"a moved entry keeps its word: ABA on occupied slots", 133}},
      {"no-drift-margin", {"an entry rests for E by the worker's clock and no longer", 0, "nessie_hy_test"}},
      {"moves-first-to-last", {"a path's moves are applied from the first one on", 22}},
      {"lost-row-served", {"a row that came back empty is served before it is declared lost", 10}},
      {"words-begin-anew",
       {"a row laid out anew stores words of its former incarnations again", 0, "nessie_hy_test"}},
      {"insert-replaces",
       {"an INSERT replaces the value of a key that is there, and says that it was not", 10}},
      {"timeout-is-no-effect", {"an operation that timed out says that it did nothing", 8}},
      {"reply-names-low-bits",
       {"a reply says of the number that it answers the 16 low bits alone", 0, "write_channel_test"}},
      {"slots-not-taken-over",
       {"a client that comes back uses the slots of its former incarnation at once", 0,
        "write_channel_test"}},
      {"repeated-word", {"a request that is sent again has the polled word that it had before", 20}},
      {"old-life-executed", {"a request is sent again to a server that has crashed since", 34}},
      {"numbers-begin-anew",
       {"a client that comes back numbers its requests from the start", 0, "write_channel_test"}},
      {"keys-not-renewed", {"a node that restarted is addressed with the keys of its lost regions", 2}},
      {"server-does-not-reconnect", {"a server worker leaves a connection that is down as it is", 11}},
      {"void-is-empty", {"a GET takes memory that nobody laid out for EMPTY words", 91}},
      {"reborn-get-goes-on",
       {"a GET goes on after its node came back with fresh memory", 0, "nessie_hy_test"}},
      {"cached-for-ever",
       {"a cached entry is used however old its word is", 0,
        "nothing within 2400 seeds; equivalent until the words' counter wraps: no word comes back to a slot, "
        "so a cached entry is right as long as a slot has its word"}},
      {"second-read-unchecked",
       {"the key of the second READ of two is not compared (H22)", 0,
        "nothing within 1900 seeds; equivalent: whenever the second READ sees another use, the word is older "
        "than E, and the time refuses it"}},
  };
}

std::vector<kv::Fix> known_fixes(const kv::Options& options) {
  if (options.choice("nessie-hy.variant") != "published" || options.boolean("nessie-hy.mend-h2")) return {};
  return {{"H2", "EMPTY words look alike: a slot that was filled and emptied seems unchanged",
           "nessie-hy.mend-h2"}};
}

std::vector<kv::Hole> known_holes() {
  return {{"H2",
           "EMPTY words look alike: a slot that was filled and emptied seems unchanged",
           {{"nessie-hy.variant", "published"}},
           246}};
}

Result<Settings> decide(const kv::DeployConfig& config, const kv::Options& options, std::string_view mutant) {
  const bool is_published = options.choice("nessie-hy.variant") == "published";
  if (!is_published && options.boolean("nessie-hy.mend-h2")) {
    return refuse(
        "nessie-hy.mend-h2: fixes the published text; expected nessie-hy.variant published alongside it");
  }
  coupled::Rules rules;
  rules.has_readers = true;
  rules.expiry = options.integer("nessie-hy.expiry");
  rules.empty_repeats = is_published && !options.boolean("nessie-hy.mend-h2");
  const auto filter_bits = static_cast<std::uint32_t>(options.integer("nessie-hy.filter-bits"));
  rpc::ChannelFlaws flaws;
  Settings reading{.table = {.name = protocol,
                             .entry = coupled::EntryLayout(8, 8),
                             .frames = coupled::FrameLayout(8, 8),
                             .family = cuckoo::HashFamily({.nodes = 1, .slots_per_node = 4}, 0)}};
  LOCH_TRY(apply_mutant(mutant, rules, flaws, reading));
  LOCH_ASSIGN(reading.table, coupled::decide(protocol, config, options, rules, flaws, filter_bits));
  reading.expiry = rules.expiry;
  reading.reads_header_first = header_first(options, config);
  reading.polls_watermarks = options.choice("nessie-hy.completion") == "watermark";
  reading.table.polls_nic_words = reading.polls_watermarks;
  if (options.choice("nessie-hy.index-access") == "nic") reading.table.index_by = coupled::IndexBy::nic;
  if (options.boolean("nessie-hy.cache")) {
    // the word under which the cache stores an entry has 12 bits for the number of the entry's server worker
    constexpr std::uint32_t most_rows = 4095;
    if (reading.table.family.shape().nodes > most_rows) {
      return refuse(fmt::format("nessie-hy.cache: {} server workers; expected at most {} with a cache",
                                reading.table.family.shape().nodes, most_rows));
    }
    const double keys_per_node = static_cast<double>(config.max_keys) / config.nodes;
    reading.cache_entries =
        static_cast<std::uint64_t>(std::ceil(keys_per_node * options.real("nessie-hy.cache-fraction")));
  }
  const std::uint64_t a_cached = reading.table.kept_value() + config.key_size + 64;
  const std::uint64_t landing = reading.table.channel.parties.lanes() * reading.table.entry.stride();
  const fabric::Elision kept = reading.table.entry.elision(reading.table.kept_value());
  LOCH_TRY(coupled::fit_memory(reading.table, reading.cache_entries * a_cached + kept.physical_bytes(landing),
                               static_cast<std::uint64_t>(options.integer("nessie-hy.spare-limit"))));
  return reading;
}

}  // namespace loch::nessie_hy
