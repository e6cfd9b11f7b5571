// The options of Pilaf, one line each, with unit, default and source.
#include "pilaf_em/settings.h"

namespace loch::pilaf {
namespace {

using kv::OptionType;

void add_store_options(std::vector<kv::OptionSpec>& all) {
  const std::vector<kv::OptionSpec> specs = {
      {"pilaf.hash-functions",
       OptionType::integer,
       "3",
       "hash functions, buckets that a key can be in (3.4: 3)",
       {},
       2,
       4},
      {"pilaf.fill",
       OptionType::real,
       "0.75",
       "share of a table's slots that the largest number of keys fills (3.4)",
       {},
       0.01,
       0.9},
      {"pilaf.initial-slots",
       OptionType::integer,
       "0",
       "slots of a server's first table (published code: 16); 0: by pilaf.fill",
       {},
       0,
       4e9},
      {"pilaf.table-growths",
       OptionType::integer,
       "2",
       "growths of the table that memory is reserved for; later ones are refused: table full",
       {},
       0,
       40},
      {"pilaf.table-growth",
       OptionType::real,
       "2",
       "a table of n slots is followed by one of this times n + 1 (published code: 2)",
       {},
       1,
       16},
      {"pilaf.extents-start",
       OptionType::size,
       "0",
       "bytes of extents at first (published code: 1M), doubled when full, from 1G on times 1.25; 0: what "
       "the "
       "keys need",
       {},
       0,
       1e13},
      {"pilaf.extents-growths",
       OptionType::integer,
       "1",
       "doublings of the larger of that and what the keys need that memory is reserved for",
       {},
       0,
       20},
      {"pilaf.slack",
       OptionType::real,
       "1.25",
       "an extent is this times what is first stored in it, and a GET READs all of it (published code: 1.25; "
       "the entry of Figure 5 has no room for that: 1)",
       {},
       1,
       4},
      {"pilaf.hops",
       OptionType::integer,
       "32",
       "entries that one insertion may move before the table grows (published code: 32)",
       {},
       0,
       1000},
      {"pilaf.update",
       OptionType::choice,
       "in-place",
       "a value that fits its extent is overwritten in place (published), or every PUT takes a new extent",
       {"in-place", "replace"}},
      {"pilaf.guard",
       OptionType::choice,
       "together",
       "a bucket and its guard are written together, or the fields where they lie and, when it is computed, "
       "the "
       "guard (published code): READs in between start over",
       {"together", "last"}},
      {"pilaf.step-pause",
       OptionType::duration,
       "0ns",
       "longest time that a server stops for between two steps of a change, as one that loses its core does: "
       "for tests",
       {},
       0,
       1e9},
      {"pilaf.attempts",
       OptionType::integer,
       "1000",
       "times that a GET starts over before it reports a conflict (published: no bound)",
       {},
       1,
       1e9},
  };
  all.insert(all.end(), specs.begin(), specs.end());
}

void add_message_options(std::vector<kv::OptionSpec>& all) {
  const std::vector<kv::OptionSpec> specs = {
      {"pilaf.messages",
       OptionType::choice,
       "rc",
       "transport of verb messages (2.1: reliable mode)",
       {"rc", "uc", "ud"}},
      {"pilaf.inline",
       OptionType::boolean,
       "false",
       "messages that the device can inline are inlined (HERD 5.1: an optimization of its emulation)",
       {}},
      {"pilaf.signaling",
       OptionType::choice,
       "every",
       "every SEND has a completion, or inlined ones have none (HERD 5.1)",
       {"every", "selective"}},
      {"pilaf.reply-timeout",
       OptionType::duration,
       "20ms",
       "time after which a request without a reply is sent again",
       {},
       1e3,
       1e12,
       "200ms"},
      {"pilaf.patience",
       OptionType::duration,
       "1s",
       "time after which a request without any reply is given up",
       {},
       1e3,
       1e13,
       "5s"},
      {"pilaf.reconnect-timeout",
       OptionType::duration,
       "20ms",
       "how long an operation tries to reach a node anew",
       {},
       1,
       1e12},
      {"pilaf.log",
       OptionType::text,
       "",
       "path of the log of PUTs and DELETEs; .nN.sS is added for node and server; replayed at the start; "
       "empty: none (5: off in the experiments)",
       {}},
      {"pilaf.log-repair",
       OptionType::boolean,
       "false",
       "a log that is damaged before intact records is cut at the damage, and they are dropped; false: it is "
       "refused, with the number of these records",
       {}},
      {"pilaf.log-disk",
       OptionType::size,
       "0",
       "bytes a second of a modelled disk under the log, with or without pilaf.log: PUTs wait while a "
       "megabyte is behind; 0: none",
       {},
       0,
       1e12},
      {"pilaf.log-sync",
       OptionType::choice,
       "async",
       "a reply waits for nothing, for write(2): holds after a kill of the process, or for fdatasync(2): "
       "holds "
       "after a power failure",
       {"async", "write", "fsync"}},
  };
  all.insert(all.end(), specs.begin(), specs.end());
}

}  // namespace

std::vector<kv::OptionSpec> option_specs(std::string_view protocol) {
  const bool has_reads = protocol == "pilaf";
  std::vector<kv::OptionSpec> all = {
      {"pilaf.variant", OptionType::choice, "mended",
       "rules: with every fix, or the published ones (docs/protocols/pilaf.md); em-opt: HERD's optimistic "
       "emulation, "
       "which stores nothing",
       has_reads ? std::vector<std::string>{"mended", "published", "em-opt"}
                 : std::vector<std::string>{"mended", "published"}},
  };
  if (has_reads) {
    all.push_back(kv::fix_option(
        "pilaf", "p1", "published with one fix: a miss is confirmed against the version word (P1)"));
    all.push_back(
        kv::fix_option("pilaf", "p2", "published with one fix: a GET starts over in a new table (P2)"));
    all.push_back({"pilaf.emulated-reads",
                   OptionType::real,
                   "1.6",
                   "em-opt: READs of 32-byte buckets a GET, on average (HERD 5.1)",
                   {},
                   1,
                   3});
  }
  all.push_back(kv::fix_option(
      "pilaf", "p3", "published with one fix: a PUT or DELETE that is sent again is executed once (P3)"));
  add_store_options(all);
  add_message_options(all);
  all.push_back(
      {"pilaf.first-number",
       OptionType::integer,
       "0",
       "where the requests of a lane begin to be numbered: close to 524287 the number soon wraps (tests)",
       {},
       0,
       rpc::MessageTag::number_mask});
  kv::give_role(all, "pilaf.first-number", kv::OptionRole::first_number);
  kv::give_role(all, "pilaf.hash-functions", kv::OptionRole::hash_functions);
  kv::give_role(all, "pilaf.initial-slots", kv::OptionRole::initial_slots);
  kv::give_role(all, "pilaf.log", kv::OptionRole::file);
  kv::give_role(all, "pilaf.attempts", kv::OptionRole::attempts);
  kv::give_role(all, "pilaf.reply-timeout", kv::OptionRole::reply_timeout);
  kv::give_role(all, "pilaf.patience", kv::OptionRole::give_up);
  kv::give_role(all, "pilaf.reconnect-timeout", kv::OptionRole::reconnect_timeout);
  kv::let_fuzz(all, "pilaf.guard", {"last"});
  kv::let_fuzz(all, "pilaf.slack", {"1"});
  return all;
}

}  // namespace loch::pilaf
