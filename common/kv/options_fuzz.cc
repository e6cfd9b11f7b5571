// Fuzzer: reads arbitrary bytes as lines KEY=VALUE of protocol options. A line is either refused with an
// error that names its key, or sets a value of the option's type and within the option's range.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/kv/options.h"

namespace {

using namespace loch;

const std::vector<kv::OptionSpec>& specs() {
  using enum kv::OptionType;
  static const std::vector<kv::OptionSpec> all = {
      {"p.boolean", boolean, "true", "", {}},
      {"p.integer", integer, "7", "", {}, -5, 15},
      {"p.real", real, "0.5", "", {}, 0, 1},
      {"p.size", size, "4K", "", {}, 1, 1e12},
      {"p.duration", duration, "2us", "", {}, 0, 1e15},
      {"p.choice", choice, "a", "", {"a", "bb"}},
      {"p.text", text, "", "", {}},
  };
  return all;
}

void check_all(const kv::Options& options) {
  LOCH_CHECK(options.integer("p.integer") >= -5 && options.integer("p.integer") <= 15);
  LOCH_CHECK(options.real("p.real") >= 0 && options.real("p.real") <= 1);
  LOCH_CHECK(options.integer("p.size") >= 1 && options.integer("p.size") <= 1'000'000'000'000);
  LOCH_CHECK(options.integer("p.duration") >= 0 && options.integer("p.duration") <= 1'000'000'000'000'000);
  LOCH_CHECK(options.choice("p.choice") == "a" || options.choice("p.choice") == "bb");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view left(reinterpret_cast<const char*>(data), size);
  kv::Options options(specs());
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, equals);
    const auto set = options.set(key, line.substr(equals + 1));
    if (!set) LOCH_CHECK(set.error().message.find(key) != std::string::npos, "{}", set.error().message);
    check_all(options);
  }
  return 0;
}
