// Counts PUTs, and computes digests of requests by which clients check what the server executed.
#include "farm_em/puts.h"

#include <algorithm>
#include <utility>

#include "common/base/rng.h"
#include "common/fabric/memory.h"

namespace loch::farm {

std::uint32_t kept_of(const Settings& settings) {
  return std::min(settings.config.kept_value_bytes, settings.layout.value_size());
}

std::uint64_t digest_of(const std::byte* key, std::uint32_t key_bytes, const std::byte* value,
                        std::uint32_t value_bytes) {
  std::uint64_t digest = mix64(key_bytes);
  for (const auto& [bytes, size] : {std::pair{key, key_bytes}, std::pair{value, value_bytes}}) {
    for (std::uint32_t at = 0; at < size; at += 8) {
      std::uint64_t word = 0;
      fabric::copy_from_shared(&word, bytes + at, std::min<std::uint32_t>(8, size - at));
      digest = mix64(digest ^ word);
    }
  }
  return digest;
}

void PutCounts::add(const PutCounts& other) {
  begun += other.begun;
  answered += other.answered;
  unexecuted += other.unexecuted;
  retries += other.retries;
  timeouts += other.timeouts;
}

void report(const PutCounts& sum, std::uint64_t executed, std::map<std::string, double>& counters) {
  const auto add = [&](const char* name, std::uint64_t value) {
    counters[name] += static_cast<double>(value);
  };
  add("puts_begun", sum.begun);
  add("puts_answered", sum.answered);
  add("puts_executed", executed);
  add("puts_unexecuted", sum.unexecuted);
  add("put_retries", sum.retries);
  add("put_timeouts", sum.timeouts);
  counters[std::string(kv::violations_counter)] += static_cast<double>(sum.unexecuted);
}

}  // namespace loch::farm
