// Derives and checks the options and sizes of HERD, and the rules of its variants.
#include "herd_em/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "common/kv/checks.h"

namespace loch::herd {
namespace {

constexpr std::uint32_t largest_value = 4096;  // bytes of a value that fit in one datagram

using kv::refuse;

Result<> check_shape(const kv::DeployConfig& c) {
  if (c.server_workers == 0)
    return refuse("--servers 0: herd's requests are executed by server workers; expected at least 1");
  if (c.window == 0) return refuse("--window 0: a herd client has at least 1 request slot to each server");
  if (c.window > 4096) return refuse(fmt::format("--window {}: herd's replies name 4096 slots", c.window));
  if (c.client_workers == 0) return refuse("--clients 0: herd needs client workers; expected at least 1");
  if (c.key_size == 0) return refuse("--key-size 0: a key has at least 1 byte");
  if (c.value_size == 0 || c.value_size > largest_value) {
    return refuse(fmt::format("--value-size {}: herd's replies are datagrams; expected 1 to {} bytes",
                              c.value_size, largest_value));
  }
  return {};
}

Rules rules_of(const kv::Options& options) {
  Rules rules;
  if (options.choice("herd.variant") == "published") {
    rules.numbers = options.boolean("herd.mend-q1");
    rules.scans_all = options.boolean("herd.mend-q2");
    rules.never_zero = options.boolean("herd.mend-q3");
    rules.checks = options.boolean("herd.mend-q5");
  }
  return rules;
}

Result<SlotFormat> format_of(const kv::DeployConfig& c, const kv::Options& options, const Rules& rules) {
  SlotFormat format;
  format.layout = options.choice("herd.layout") == "2016" ? Layout::y2016 : Layout::y2014;
  format.has_trailer = rules.numbers || rules.checks;
  format.checks = rules.checks;
  format.value_bytes = c.value_size;
  format.kept_bytes = std::min(c.kept_value_bytes, c.value_size);
  const bool is_2016 = format.layout == Layout::y2016;
  if (is_2016 && c.value_size > 255) {
    return refuse(
        fmt::format("--value-size {}: the length in a 2016 request is one byte; herd.layout 2014 "
                    "takes up to {} bytes",
                    c.value_size, largest_value));
  }
  const auto wanted = static_cast<std::uint32_t>(options.integer("herd.slot"));
  const std::uint32_t usual = is_2016 ? 64 : 1024;
  const std::uint32_t needed = (format.largest() + 63) / 64 * 64;
  format.slot_bytes = wanted == 0 ? std::max(usual, needed) : (wanted + 63) / 64 * 64;
  if (format.slot_bytes < needed) {
    return refuse(fmt::format("--herd.slot {}: a PUT of {} bytes takes {}", wanted, c.value_size, needed));
  }
  return format;
}

PartitionShape partition_of(const kv::DeployConfig& c, const kv::Options& options, std::uint32_t servers) {
  PartitionShape shape;
  const bool is_2016 = options.choice("herd.layout") == "2016";
  const std::uint64_t keys = (c.max_keys + servers - 1) / servers;
  shape.value_bytes = std::min(c.kept_value_bytes, c.value_size);
  shape.is_lossless = options.choice("herd.mode") == "store";
  shape.eviction = is_2016 ? Eviction::by_tag : Eviction::oldest;
  const auto tag_bits = static_cast<std::uint32_t>(options.integer("herd.tag-bits"));
  shape.tag_bits = tag_bits != 0 ? tag_bits : is_2016 ? 23 : 16;
  const auto buckets = static_cast<std::uint64_t>(options.integer("herd.buckets"));
  constexpr std::uint64_t fewest_buckets = 64, keys_a_bucket = 4;
  shape.buckets = std::bit_ceil(buckets != 0 ? buckets : std::max(fewest_buckets, keys / keys_a_bucket));
  const std::uint64_t entry = Log::entry_bytes(shape.value_bytes);
  const auto log = static_cast<std::uint64_t>(options.integer("herd.log"));
  // Scales the log's size down if a simulation stores only the first bytes of each value: to the number of
  // complete entries that a log of whole values holds, times the stored bytes of an entry, plus a remainder
  // that has no room for a further entry.
  const std::uint64_t whole_entry = Log::entry_bytes(c.value_size);
  const auto scaled = [&](std::uint64_t bytes) {
    if (entry == whole_entry) return bytes;
    return bytes / whole_entry * entry + std::min(bytes % whole_entry, entry - 8);
  };
  constexpr std::uint64_t least_log = 64 << 10;
  shape.log_bytes =
      log != 0 ? std::max(scaled(log), entry) : scaled(std::max(least_log, 2 * keys * whole_entry));
  return shape;
}

Result<> apply_mutant(std::string_view mutant, Settings& s) {
  if (mutant.empty()) return {};
  if (mutant == "no-duplicate-detection")
    s.rules.executes_duplicates = true;
  else if (mutant == "reply-not-awaited")
    s.rules.awaits_no_reply = true;
  else if (mutant == "any-reply-accepted")
    s.rules.takes_any_reply = true;
  else if (mutant == "sequence-not-advanced")
    s.rules.keeps_sequence = true;
  else if (mutant == "trailer-alone")
    s.format.checks = false;
  else if (mutant == "log-not-checked")
    s.partition.log.checks_nothing = true;
  else if (mutant == "wrap-underflow")
    s.partition.log.wrap_underflows = true;
  else if (mutant == "first-tag-insert")
    s.partition.inserts_by_first_tag = true;
  else if (mutant == "repeated-word")
    s.rules.repeats_word = true;
  else if (mutant == "copied-unchecked")
    s.rules.trusts_first_look = true;
  else if (mutant == "reply-of-any-server")
    s.rules.ignores_server = true;
  else if (mutant == "timeout-is-no-effect")
    s.rules.timeouts_are_none = true;
  else if (mutant == "repeated-says-done")
    s.rules.forgets_status = true;
  else if (mutant == "insert-says-done")
    s.rules.inserts_say_done = true;
  else if (mutant == "any-keyhash")
    s.rules.never_zero = false;
  else if (mutant == "store-mode-wraps")
    s.partition.wraps_in_store_mode = true;
  else if (mutant == "store-mode-evicts")
    s.partition.evicts_in_store_mode = true;
  else if (mutant == "entry-not-released")
    s.partition.keeps_replaced = true;
  else
    return refuse(fmt::format("mutant: herd has none named {}", mutant));
  return {};
}

Result<> check_memory(const Settings& s) {
  const std::uint64_t one = s.partition.buckets * sizeof(Index::Bucket) + s.partition.log_bytes;
  const std::uint64_t slots = std::uint64_t{s.slots()} * s.format.slot_bytes;
  const std::uint64_t all = s.config.server_workers * (one + slots);
  if (s.config.memory_bytes == 0 || all <= s.config.memory_bytes) return {};
  return refuse(fmt::format("--herd.buckets, --herd.log: {} server workers a node take {} bytes of {}",
                            s.config.server_workers, all, s.config.memory_bytes));
}

}  // namespace

Result<Settings> decide(const kv::DeployConfig& config, const kv::Options& options, std::string_view mutant) {
  LOCH_TRY(check_shape(config));
  Settings s;
  s.config = config;
  s.rules = rules_of(options);
  LOCH_ASSIGN(s.format, format_of(config, options, s.rules));
  s.partition = partition_of(config, options, s.servers());
  s.batch = static_cast<std::uint32_t>(options.integer("herd.batch"));
  const std::string& prefetch = options.choice("herd.prefetch");
  const bool is_2016 = s.format.layout == Layout::y2016;
  if (prefetch == "auto")
    s.prefetch = is_2016 || s.batch > 1 ? Prefetch::batch : Prefetch::pipeline;
  else
    s.prefetch = prefetch == "none"    ? Prefetch::none
                 : prefetch == "batch" ? Prefetch::batch
                                       : Prefetch::pipeline;
  if (s.prefetch == Prefetch::pipeline && s.batch > 1) {
    return refuse(fmt::format(
        "--herd.batch {}: the pipeline takes one request at a time; --herd.prefetch batch", s.batch));
  }
  s.drain = options.integer("herd.drain");
  s.replies.message_bytes = config.value_size;
  const auto list = static_cast<std::uint32_t>(options.integer("herd.reply-list"));
  s.replies.list_most = list == 0 ? s.batch : list;
  s.replies.signal_every = static_cast<std::uint32_t>(options.integer("herd.signal-every"));
  s.replies.lanes = static_cast<std::uint8_t>(options.integer("herd.ud-qps"));
  s.replies.inline_below = static_cast<std::uint32_t>(options.integer("herd.inline-below"));
  if (options.choice("herd.transport") == "rc") s.transport = fabric::Transport::rc;
  s.retry = options.integer("herd.retry");
  s.give_up = options.integer("herd.give-up");
  s.rewrites = options.boolean("herd.rewrite");
  s.first_number = static_cast<std::uint16_t>(options.integer("herd.first-number"));
  if (s.give_up < s.retry) return refuse("--herd.give-up: before the first --herd.retry");
  LOCH_TRY(apply_mutant(mutant, s));
  LOCH_TRY(check_memory(s));
  return s;
}

}  // namespace loch::herd
