// Availability promises and known-bad variants of stores whose server workers own their tables.
#include "common/coupled/variants.h"

#include <fmt/format.h>

namespace loch::coupled {

kv::Promise promise(kv::Loss loss) {
  switch (loss) {
    case kv::Loss::client_killed:
    case kv::Loss::link_down:
      return kv::Promise::serves;
    case kv::Loss::server_killed:
      return kv::Promise::unavailable;
    case kv::Loss::memory_lost:
      return kv::Promise::after_return;
  }
  return kv::Promise::unavailable;
}

kv::DataSupport data_support() {
  kv::DataSupport all;
  all.insert_if_absent = {.is_there = true, .how = "by the server worker that owns the key"};
  return all;
}

Switches switches(Rules& rules, rpc::ChannelFlaws& flaws) {
  return {
      {"no-duplicate-detection", &flaws.executes_repeated},
      {"trailer-without-order", &flaws.trusts_trailer},
      {"reply-names-low-bits", &flaws.replies_name_low_bits},
      {"slots-not-taken-over", &flaws.takes_nothing_over},
      {"repeated-word", &flaws.repeats_word},
      {"old-life-executed", &flaws.ignores_incarnations},
      {"numbers-begin-anew", &flaws.numbers_from_zero},
      {"keys-not-renewed", &flaws.keeps_old_keys},
      {"server-does-not-reconnect", &flaws.never_repairs},
      {"moves-first-to-last", &rules.moves_forward},
      {"lost-row-served", &rules.serves_lost},
      {"insert-replaces", &rules.inserts_replace},
      {"timeout-is-no-effect", &rules.timeouts_are_none},
  };
}

bool switch_on(const Switches& switches, std::string_view mutant) {
  if (mutant.empty()) return true;
  const auto found = switches.find(mutant);
  if (found == switches.end()) return false;
  *found->second = true;
  return true;
}

std::unexpected<Error> no_such_mutant(std::string_view protocol, std::string_view mutant) {
  return fail(ErrorCode::invalid_argument, fmt::format("mutant: {} has none named {}", protocol, mutant));
}

}  // namespace loch::coupled
