// One deployment of a partially coupled store, decided: all candidates and the entry of a key are one
// server worker's, which the key's hash chooses. The same on every node and constant while it runs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/coupled/layout.h"
#include "common/cuckoo/hash_family.h"
#include "common/kv/options.h"
#include "common/kv/protocol.h"

namespace loch::coupled {

// Clients measure E by their clocks, the server by its own: their rates differ by far less than one part in
// as many.
constexpr Nanos drift_share = 1000;

// How a server worker writes its tables. The defaults are NessieSD's, whose tables nobody else reads.
struct Rules {
  bool has_readers = false;  // clients READ words and entries: entries are replaced, never changed
  Nanos expiry = 0;          // E: an entry that left the index is free after it
  // Known-bad variants of a table with readers.
  bool updates_in_place = false;
  bool switches_early = false;  // the word is stored before the entry is written
  bool reuses_at_once = false;  // E is not awaited
  bool empty_repeats = false;   // all EMPTY words are equal (H2)
  bool word_repeats = false;    // an entry's word is the same wherever and whenever it is stored
  bool clears_first = false;    // a move empties its source, then fills its target
  bool replies_early = false;   // a PUT or DELETE is answered before its store
  bool serves_any_row = false;  // workers share their tables without a lock
  // Known-bad variants of any table.
  bool moves_forward = false;    // a path's moves are applied from the first one on
  bool serves_lost = false;      // a row that came back empty is served at once
  bool words_restart = false;    // a row that is laid out anew stores words of its former incarnations again
  bool forgets_drift = false;    // an entry rests for E and not for a thousandth longer
  bool inserts_replace = false;  // an INSERT replaces the value of a key that is there
  bool timeouts_are_none = false;  // an operation that timed out says that it did nothing
};

struct Settings {
  std::string name;  // "nessie-sd": prefix of options and regions
  kv::DeployConfig config;
  Rules rules;
  EntryLayout entry;
  FrameLayout frames;
  cuckoo::HashFamily family;  // a "node" of it is a row: one server worker's table
  rpc::ChannelConfig channel;
  std::uint64_t slots_per_row = 0;
  std::uint32_t entries_per_row = 0;
  // Those that a row has whatever the load lie together. The others lie behind the last row, so that the
  // length of a run changes no address, and with it no prediction.
  std::uint32_t near_entries = 0;
  std::uint32_t filter_bits = 0;
  std::uint32_t attempts = 0;  // per operation, including the first
  Nanos backoff_start = 0, backoff_cap = 0;

  [[nodiscard]] std::uint32_t functions() const { return family.shape().functions; }
  [[nodiscard]] std::uint32_t servers() const { return config.server_workers; }
  // Offsets in a node's regions, of its server worker `server`.
  [[nodiscard]] std::uint64_t word_at(std::uint32_t server, std::uint64_t slot) const {
    return (server * slots_per_row + slot) * 8;
  }
  [[nodiscard]] std::uint64_t entry_at(std::uint32_t server, std::uint32_t number) const {
    const std::uint64_t first = number < near_entries
                                    ? std::uint64_t{server} * near_entries
                                    : std::uint64_t{servers() - 1} * near_entries +
                                          std::uint64_t{server} * (entries_per_row - near_entries);
    return (first + number) * entry.stride();
  }
  [[nodiscard]] std::uint64_t index_bytes() const { return config.server_workers * slots_per_row * 8; }
  [[nodiscard]] std::uint64_t data_bytes() const {
    return std::uint64_t{config.server_workers} * entries_per_row * entry.stride();
  }
  [[nodiscard]] std::uint32_t kept_value() const {
    return config.kept_value_bytes < config.value_size ? config.kept_value_bytes : config.value_size;
  }
};

// The options that every such store has, under its name; `help` of some names the paper.
[[nodiscard]] std::vector<kv::OptionSpec> table_options(const std::string& name);

// What a fuzz seed draws of them: periods so short that replies are late and requests come twice.
[[nodiscard]] std::map<std::string, std::string> fuzz_options(const std::string& name, Rng& rng,
                                                              const kv::DeployConfig& shape);

// Refuses impossible combinations with one line that names the flag. Of `rules` the expiry is set already.
[[nodiscard]] Result<Settings> decide(const std::string& name, const kv::DeployConfig& config,
                                      const kv::Options& options, const Rules& rules,
                                      const rpc::ChannelFlaws& flaws, std::uint32_t filter_bits);
// Refuses what does not fit the node's memory, with `more` bytes of the store's own; adds the entries that
// the load needs (kv::spare_for_load), but no more than fit in `spare_limit` bytes and in half of what is
// left.
[[nodiscard]] Result<> fit_memory(Settings& settings, std::uint64_t more, std::uint64_t spare_limit);

}  // namespace loch::coupled
