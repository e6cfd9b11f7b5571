// The settings of one deployment of a partially coupled store: a key's hash chooses one server worker,
// which owns all of the key's candidate slots and its entry. Settings are the same on every node and do
// not change during a run.
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

// Clients measure the expiry period by their own clocks, the server by its own. A replaced entry is kept for
// a thousandth longer than the expiry period, which is far more than the difference between the clocks'
// rates.
constexpr Nanos drift_share = 1000;

// Rules by which a server worker writes its tables. The defaults are those of NessieSD, Nessie's
// server-driven variant, in which only the owning worker reads the tables.
struct Rules {
  // true: clients READ words and entries, so that a PUT writes a new entry; false: a PUT updates the entry in
  // place
  bool has_readers = false;
  // ns; the expiry period E, after which an entry that no index word names any more may be reused
  Nanos expiry = 0;
  // mutant: a PUT overwrites the value of an entry that clients may be reading
  bool updates_in_place = false;
  // mutant: stores the index word before it has written the entry that the word names
  bool switches_early = false;
  bool reuses_at_once = false;  // mutant: reuses a replaced entry without waiting for the expiry period E
  // mutant: all EMPTY words are equal, so that a reader misses that a slot was filled and emptied again
  bool empty_repeats = false;
  // mutant: words of occupied slots lack the count of stores (stamp), so that they repeat
  bool word_repeats = false;
  bool clears_first = false;    // mutant: a moved key's old slot is emptied before its new slot is filled
  bool replies_early = false;   // mutant: replies to a PUT or DELETE before it stores the index word
  bool serves_any_row = false;  // mutant: workers of a node serve each other's rows (tables) without a lock
  bool moves_forward = false;   // mutant: applies the moves of a cuckoo path from the first to the last
  bool serves_lost = false;     // mutant: a worker whose node lost its memory serves an empty table at once
  bool words_restart = false;   // mutant: a table that is initialised anew repeats earlier index words
  // mutant: reuses an entry after the expiry period E, without a margin for clock drift
  bool forgets_drift = false;
  bool inserts_replace = false;    // mutant: an INSERT replaces the value of a present key
  bool timeouts_are_none = false;  // mutant: a write that timed out is reported as certainly without effect
  // mutant: a CAS by the worker that ended in an error is taken for done, without a look at the slot
  bool trusts_failed_swap = false;
};

// How server workers read and change the index words of their rows.
enum class IndexBy : std::uint8_t {
  cpu,  // loads and stores
  nic,  // READ and CAS through the NIC of their own node (nic_index.h)
};

struct Settings {
  std::string name;  // name of the store, such as "nessie-sd": prefix of its options and regions
  kv::DeployConfig config;
  Rules rules;
  EntryLayout entry;
  FrameLayout frames;
  // hash functions; a "node" of the family is a row: the table of one server worker
  cuckoo::HashFamily family;
  rpc::ChannelConfig channel;
  std::uint64_t slots_per_row = 0;
  std::uint32_t entries_per_row = 0;
  // Number of entries that a server worker's table (row) has whatever the load; these entries of all rows are
  // contiguous. Additional entries for a long run lie behind those of the last row, so that the length of a
  // run changes no other entry's address, and so no simulated timing.
  std::uint32_t near_entries = 0;
  std::uint32_t filter_bits = 0;
  IndexBy index_by = IndexBy::cpu;
  // How READs and CASes of index words through the NIC (IndexBy::nic) are awaited: by polling the word that
  // they return (true) or by completion.
  bool polls_nic_words = true;
  std::uint32_t attempts = 0;  // attempts per operation, including the first
  Nanos backoff_start = 0, backoff_cap = 0;

  [[nodiscard]] std::uint32_t functions() const { return family.shape().functions; }
  [[nodiscard]] std::uint32_t servers() const { return config.server_workers; }
  // Offset of an index word in a node's index region: slot number `slot` of server worker `server`.
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

// Returns the options of a store whose server workers own their keys, prefixed with the store's name; some
// help texts cite the paper.
[[nodiscard]] std::vector<kv::OptionSpec> table_options(const std::string& name);

// Draws options for a fuzz seed. Most drawn time-outs are so short that replies come late and requests are
// sent twice.
[[nodiscard]] std::map<std::string, std::string> fuzz_options(const std::string& name, Rng& rng,
                                                              const kv::DeployConfig& shape);

// Computes the settings. Refuses impossible combinations with a one-line error that names the flag. The
// caller sets `rules.expiry` before.
[[nodiscard]] Result<Settings> decide(const std::string& name, const kv::DeployConfig& config,
                                      const kv::Options& options, const Rules& rules,
                                      const rpc::ChannelFlaws& flaws, std::uint32_t filter_bits);
// Checks that the tables and `more` further bytes fit into a node's memory. Adds the spare entries that
// the load needs (kv::spare_for_load), limited to `spare_limit` bytes and to half of the node's free
// memory.
[[nodiscard]] Result<> fit_memory(Settings& settings, std::uint64_t more, std::uint64_t spare_limit);

}  // namespace loch::coupled
