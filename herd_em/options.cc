// The options of HERD, its mutants and holes (known faults), and the options that a fuzz run draws.
#include <fmt/format.h>

#include <utility>

#include "herd_em/settings.h"

namespace loch::herd {

namespace {

using kv::OptionType;
using Specs = std::vector<kv::OptionSpec>;
constexpr auto boolean = OptionType::boolean;
constexpr auto choice = OptionType::choice;
constexpr auto integer = OptionType::integer;
constexpr auto size = OptionType::size;
constexpr auto duration = OptionType::duration;

// Options of the protocol's rules, layout and eviction.
Specs protocol_specs() {
  return {
      {"herd.variant",
       choice,
       "mended",
       "protocol rules: with every fix, or the papers' with its holes and bytes (docs/protocols/herd.md)",
       {"mended", "published"}},
      {"herd.layout",
       choice,
       "2014",
       "request slots, index and replies of the 2014 paper or of the 2016 code",
       {"2014", "2016"}},
      {"herd.mode",
       choice,
       "cache",
       "cache: index and log forget what is oldest (MICA's); store: nothing is forgotten, a PUT may find the "
       "table "
       "full",
       {"cache", "store"}},
  };
}

// Options of how a worker collects and answers requests.
Specs worker_specs() {
  return {
      {"herd.batch",
       integer,
       "1",
       "requests that a worker collects in one pass (2016, 4.3.1; code: 32)",
       {},
       1,
       64},
      {"herd.reply-list",
       integer,
       "0",
       "replies behind one doorbell, at most; 0: those of a batch; 1: each by itself, by MMIO (2016, 4.3.1)",
       {},
       0,
       64},
      {"herd.ud-qps",
       integer,
       "1",
       "UD queue pairs of a worker, in turn by posting list (2016, 4.1; code: 1 for HERD, 3 for sequencers)",
       {},
       1,
       8},
      {"herd.prefetch",
       choice,
       "auto",
       "hiding memory latency: 2014's pipeline, 2016's by batch, none; auto: by layout and batch",
       {"auto", "none", "pipeline", "batch"}},
      {"herd.drain",
       duration,
       "1us",
       "pipeline: polling in vain for so long moves it on (2014 code: 100 polls)",
       {},
       0,
       1e9},
      {"herd.inline-below",
       size,
       "144",
       "replies below so many bytes are inlined, if the device can (2014, 5.3: 144 on Apt, 192 on Susitna)",
       {},
       0,
       4097},
      {"herd.signal-every",
       integer,
       "64",
       "one reply in so many asks for a completion (2014 and 2016 code)",
       {},
       1,
       4096},
  };
}

// Options of memory sizes; 0 means that the size follows from the workload.
Specs memory_specs() {
  return {
      {"herd.slot",
       size,
       "0",
       "bytes of a request slot; 0: 1K (2014, 4.2) or 64 (2016 code), or what a PUT takes",
       {},
       0,
       65536},
      {"herd.buckets",
       integer,
       "0",
       "index buckets of 8 slots a worker, a power of two; 0: one for 4 keys (2016 code: 2M for 8M keys)",
       {},
       0,
       1 << 30},
      {"herd.log",
       size,
       "0",
       "bytes of a worker's log; 0: twice its keys' entries (2014: 128M, 2016 code: 1G)",
       {},
       0,
       1e12},
      {"herd.tag-bits", integer, "0", "key-hash bits in an index slot; 0: 16 (2014) or 23 (2016)", {}, 0, 23},
  };
}

// Options of the requests' transport, and for the case that a client gets no reply.
Specs loss_specs() {
  return {
      {"herd.transport",
       choice,
       "uc",
       "of requests: uc, as published, or rc, for devices without UC (the result says over RC)",
       {"uc", "rc"}},
      {"herd.retry",
       duration,
       "200us",
       "a request without a reply is written again after this, or after 4 times the usual latency if that is "
       "more; "
       "then after twice as long, up to 16 times",
       {},
       1e3,
       1e10,
       "20ms"},
      {"herd.rewrite",
       boolean,
       "true",
       "whether a request without a reply is written again; false: its client waits (2014 and 2016 code)",
       {}},
      {"herd.give-up",
       duration,
       "100ms",
       "an operation without a reply ends in timeout, its outcome unknown",
       {},
       1e3,
       1e11,
       "5s"},
  };
}

// Options that switch on single fixes of the published variant.
Specs fix_specs() {
  return {
      kv::fix_option("herd", "q1",
                     "published: sequence numbers; a repeated request is answered again, not executed again"),
      kv::fix_option("herd", "q2",
                     "published: the worker looks at all slots of a client, not at the next one alone"),
      kv::fix_option("herd", "q3", "published: no keyhash has the low byte 0 of an empty slot"),
      kv::fix_option("herd", "q5",
                     "published: a request of several cache lines is here when its check says so"),
  };
}

}  // namespace

std::vector<kv::OptionSpec> option_specs() {
  Specs all;
  for (const auto& specs : {protocol_specs, worker_specs, memory_specs, loss_specs, fix_specs}) {
    for (kv::OptionSpec& spec : specs()) all.push_back(std::move(spec));
  }
  all.push_back(
      {"herd.first-number",
       integer,
       "0",
       "where the requests of a slot begin to be numbered: close to 65535 the number soon wraps (tests)",
       {},
       0,
       65535});
  kv::give_role(all, "herd.first-number", kv::OptionRole::first_number);
  kv::give_role(all, "herd.retry", kv::OptionRole::reply_timeout);
  kv::give_role(all, "herd.give-up", kv::OptionRole::give_up);
  return all;
}

std::map<std::string, kv::Mutant> mutants() {
  return {
      {"no-duplicate-detection", {"a repeated PUT or DELETE is executed again (Q1)", 7}},
      {"reply-not-awaited", {"a PUT or DELETE is over when its request is posted", 1}},
      {"any-reply-accepted", {"a late reply counts for the slot's next request", 7}},
      {"sequence-not-advanced", {"after a time-out the slot's next request has the same number", 7}},
      {"trailer-alone", {"a request of several lines is here when its trailer is (Q5)", 53}},
      {"log-not-checked", {"an entry that the log has overwritten counts as there", 1}},
      {"wrap-underflow", {"capacity minus head, unsigned: entries run past the end of the log", 2}},
      {"first-tag-insert",
       {"a PUT looks at the first slot with its tag alone and takes the last free one", 1}},

      {"repeated-word",
       {"a request that is written again has the polled word that it had before", 0, "herd_fabrics_test"}},
      {"copied-unchecked",
       {"a request counts as whole though it may have changed while it was copied", 0,
        "nothing within 1800 seeds"}},
      {"reply-of-any-server", {"a reply counts for its slot and number whoever sent it", 16}},
      {"timeout-is-no-effect", {"a PUT or DELETE without a reply says that it did nothing", 41}},
      {"insert-says-done", {"an INSERT of a key that is there says that it was not", 10}},
      {"repeated-says-done", {"a repeated request is answered as done, whatever the first answer was", 168}},
      {"any-keyhash",
       {"a keyhash may look like an empty slot (Q3)", 0,
        "nothing within 2000 seeds; equivalent beside the fixes of Q1 and Q5, whose trailer is never 0"}},
      {"store-mode-wraps",
       {"a log that must forget nothing wraps", 0,
        "nothing within 800 seeds; fuzzed stores have room for all; herd_parts_test has it full"}},
      {"store-mode-evicts", {"a full bucket that must forget nothing gives a slot away", 214}},
      {"entry-not-released", {"in store mode the room of a removed entry is lost", 9}},
  };
}

std::vector<kv::Fix> open_holes(const kv::Options& options) {
  if (options.choice("herd.variant") != "published") return {};
  std::vector<kv::Fix> all = {
      {"Q1", "a request that is repeated is executed again, and a late reply counts for a later request",
       "herd.mend-q1"},
      {"Q2", "a lost request stops its client: the worker waits for that slot alone", "herd.mend-q2"},
      {"Q3", "a key whose hash has the low byte 0 is never seen", "herd.mend-q3"},
      {"Q5", "a request is taken when its flag is there, though not all of its lines are", "herd.mend-q5"},
  };
  std::erase_if(all, [&](const kv::Fix& fix) { return options.boolean(fix.option); });
  return all;
}

// The holes (known faults) that a test can find while all other holes are closed. Q3 (a keyhash that looks
// like an empty request slot, docs/protocols/herd.md) is missing: the fixes of Q1 (a repeated PUT is executed
// again) and Q5 (an incomplete request is executed) add a last word with number and checksum to requests,
// which removes Q3 as well.
std::vector<kv::Hole> single_holes() {
  const auto all_but = [](const char* open) {
    std::map<std::string, std::string> options = {{"herd.variant", "published"}};
    for (const char* each : {"herd.mend-q1", "herd.mend-q2", "herd.mend-q3", "herd.mend-q5"})
      options[each] = std::string_view(each) == open ? "false" : "true";
    return options;
  };
  return {
      {"Q1", "requests without numbers: repeated ones are executed again, replies taken for others",
       all_but("herd.mend-q1"), 2},
      {"Q2", "a lost request stops its client: the worker waits for that slot alone", all_but("herd.mend-q2"),
       3},
      {"Q5", "a request is taken when its flag is there, though not all of its lines are",
       all_but("herd.mend-q5"), 53},
  };
}

// Draws options under which keys mostly evict each other: few buckets, colliding tags, and a log of a few
// entries of varying size.
std::map<std::string, std::string> draw_options(Rng& rng, const kv::DeployConfig& shape) {
  const auto pick = [&](std::initializer_list<const char*> from) {
    return std::string(*(from.begin() + rng.below(from.size())));
  };
  std::map<std::string, std::string> drawn;
  drawn["herd.layout"] = pick({"2014", "2016"});
  const bool is_batched = rng.chance(0.5);
  drawn["herd.batch"] = is_batched ? pick({"2", "4", "16"}) : "1";
  drawn["herd.prefetch"] = is_batched ? pick({"none", "batch"}) : pick({"none", "pipeline", "batch"});
  drawn["herd.reply-list"] = pick({"0", "0", "1", "3"});
  drawn["herd.ud-qps"] = pick({"1", "1", "3"});
  drawn["herd.inline-below"] = pick({"0", "32", "144", "256"});
  drawn["herd.signal-every"] = pick({"1", "4", "64"});
  drawn["herd.buckets"] = pick({"1", "1", "2", "64"});
  drawn["herd.tag-bits"] = pick({"1", "1", "2", "16"});
  drawn["herd.retry"] = pick({"15us", "30us", "100us"});
  drawn["herd.give-up"] = pick({"2ms", "20ms"});
  if (rng.chance(0.2)) drawn["herd.rewrite"] = "false";
  const std::uint64_t entry = Log::entry_bytes(shape.value_size);
  const bool is_store = rng.chance(0.2);
  if (is_store) drawn["herd.mode"] = "store";
  const std::uint64_t log =
      is_store || rng.chance(0.3) ? 1 << 20 : entry * (2 + rng.below(6)) + 8 * rng.below(entry / 8);
  drawn["herd.log"] = fmt::format("{}", log);
  return drawn;
}

}  // namespace loch::herd
