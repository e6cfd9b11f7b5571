// The options of Nessie: one line each, with unit, default and source.
#include "nessie/settings.h"

namespace loch::nessie {

std::vector<kv::OptionSpec> option_specs() {
  using kv::OptionType;
  const auto boolean = OptionType::boolean;
  const auto choice = OptionType::choice;
  const auto integer = OptionType::integer;
  const auto real = OptionType::real;
  const auto duration = OptionType::duration;
  return {
      {"nessie.variant", choice, "hardened", "protocol rules: the 2017 text with its holes, or with every mend (docs/nessie.md)",
       {"hardened", "published"}},
      {"nessie.layout", choice, "2017", "index word and rules: 2017 paper, or the 2015 report's with versions (needs variant published)",
       {"2017", "2015"}},
      {"nessie.hash-functions", integer, "3", "cuckoo hash functions N, slots a key can be in (2017, 4.1.1)", {}, 2, 4},
      {"nessie.load-factor", real, "0.4", "share of index slots that the largest number of keys fills (2017, 6)", {}, 0.01, 0.95},
      {"nessie.overflow", real, "1.5", "DTEs a node per key a node: room for versions that wait for their expiry (2017, 6: 30 GB for 20)", {}, 1, 1000},
      {"nessie.min-spare", integer, "1024", "DTEs a node beyond its keys, at least: matters to small tables", {}, 1, 1e9},
      {"nessie.filter-bits", integer, "7", "key-hash bits in the index word (2017, 4.3.2); 0: none; at most 11 hardened, 15 published", {}, 0, 15},
      {"nessie.cache", boolean, "true", "LRU cache of remote entries on each node, shared by its workers (2017, 4.1.3)", {}},
      {"nessie.cache-fraction", real, "0.005", "capacity of a node's cache, as a share of the keys a node (2017, 6: 0.5 %)", {}, 0, 1},
      {"nessie.previous-versions", boolean, "true", "GETs of a key under PUT return the previous value (2017, 4.3.2)", {}},
      {"nessie.multi-read", choice, "auto", "GETs READ the header first, then the entry (2017, 4.3.2); auto: from nessie.multi-read-size on",
       {"auto", "on", "off"}},
      {"nessie.multi-read-size", OptionType::size, "64K",
       "bytes of value from which multi-read auto READs the header first: where 5 % useless READs cost a round trip", {}, 0, 1e12},
      {"nessie.completion", choice, "watermark", "how completions are noticed: polling the last byte (2017, 4.1.1), or completion queue entries",
       {"watermark", "cqe"}},
      {"nessie.stamping", choice, "lazy", "marking replaced DTEs for recycling: in the operation, or in the background (2017, 4.2.5)",
       {"lazy", "eager"}},
      {"nessie.expiry", duration, "1s", "expiry period E: age at which operations end and DTEs may be reused (2017, 4.3.1)", {}, 1e3, 1e12},
      {"nessie.clock-margin", duration, "10ms", "largest skew between two nodes' clocks that reuse allows for (2017, 4.3.1)", {}, 0, 1e12},
      {"nessie.backoff-start", duration, "2us", "upper end of the first back-off; doubles each time, full jitter (2017, 4.3.2)", {}, 1, 1e12},
      {"nessie.backoff-cap", duration, "1ms", "largest upper end of a back-off", {}, 1, 1e12},
      {"nessie.attempts", integer, "64", "attempts of one operation before it reports a conflict", {}, 1, 1e9},
      {"nessie.migrate-depth", integer, "5", "keys that one PUT may move; beyond it, the table is full (2017, 4.2.3)", {}, 1, 16},
      {"nessie.commit", choice, "flip", "commit by the DTE's valid byte (2017, 4.2.2) or by CAS of a pending bit in the ITE (hardened)",
       {"flip", "cas"}},
      {"nessie.fast-update", boolean, "false", "a PUT of an existing key is one CAS to a DTE that is valid already (hardened)", {}},
      {"nessie.single-cas-delete", boolean, "false", "a DELETE is one CAS to EMPTY, without a tombstone (hardened)", {}},
      {"nessie.tagged-migrate", boolean, "true", "MIGRATE leaves the copy's identity in the slot that it empties, so that scrub can decide (hardened)", {}},
      {"nessie.recycle-interval", duration, "100us", "pause between two turns of a worker's background stamping and recycling", {}, 1e3, 1e12},
      {"nessie.reconnect-timeout", duration, "20ms", "how long an operation tries to reach a node anew", {}, 1, 1e12},
      {"nessie.scrub", choice, "repair", "what scrub does with entries that dead clients hold: repair, or only report their number",
       {"repair", "report"}},
      {"nessie.leak-scan", boolean, "false", "scrub also stamps DTEs that nobody refers to; takes two expiry periods", {}},
  };
}

}  // namespace loch::nessie
