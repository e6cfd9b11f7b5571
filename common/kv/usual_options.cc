// Makes the options that several protocols have, each with its unit, range and role.
#include "common/kv/usual_options.h"

#include <utility>

namespace loch::kv {

OptionSpec attempts_option(const std::string& protocol) {
  return with(settings::of(OptionType::integer, protocol + ".attempts", "64",
                           "attempts of one operation before it reports a conflict", 1, 1e9),
              OptionRole::attempts);
}

OptionSpec backoff_start_option(const std::string& protocol) {
  return settings::of(OptionType::duration, protocol + ".backoff-start", "2us",
                      "upper end of the first back-off; doubles each time, full jitter", 1, 1e12);
}

OptionSpec backoff_cap_option(const std::string& protocol, std::string initial) {
  return with(settings::of(OptionType::duration, protocol + ".backoff-cap", std::move(initial),
                           "largest upper end of a back-off", 1, 1e12),
              OptionRole::backoff_cap);
}

OptionSpec reconnect_timeout_option(const std::string& protocol) {
  return with(settings::of(OptionType::duration, protocol + ".reconnect-timeout", "20ms",
                           "how long an operation tries to reach a node anew", 1, 1e12),
              OptionRole::reconnect_timeout);
}

OptionSpec with(OptionSpec spec, OptionRole role, std::vector<std::string> fuzz_values) {
  spec.role = role;
  spec.fuzz_values = std::move(fuzz_values);
  return spec;
}

OptionSpec with(OptionRole role, OptionSpec spec) { return with(std::move(spec), role); }

OptionSpec with(std::vector<std::string> fuzz_values, OptionSpec spec) {
  return with(std::move(spec), OptionRole::none, std::move(fuzz_values));
}

OptionSpec from(std::string source, OptionSpec spec) {
  spec.source = std::move(source);
  return spec;
}

}  // namespace loch::kv
