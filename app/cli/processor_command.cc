// The command `loch cpu`: measures the processor, and prints its costs as a table or as JSON.
#include "app/cli/processor_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/cli/processor.h"
#include "common/base/output_place.h"
#include "common/base/process_memory.h"
#include "common/base/units.h"

namespace loch::cli {
namespace {

constexpr std::uint64_t memory_most = 16ULL << 30, memory_least = 1ULL << 20;

struct Row {
  const char* name;  // name of the profile's constant, without "cpu."
  double ProcessorCosts::* cost;
  const char* unit;
  const char* what;
};
constexpr Row rows[] = {
    {"clock", &ProcessorCosts::clock_ghz, "GHz", "cycles a nanosecond"},
    {"memory", &ProcessorCosts::memory, "ns", "a load from a random line, pages of 4 KiB"},
    {"memory_huge", &ProcessorCosts::memory_huge, "ns", "the same in huge pages, if the kernel gave them"},
    {"line", &ProcessorCosts::line, "ns", "a line that another core has just changed"},
    {"hash", &ProcessorCosts::hash, "ns", "fixed part of a hash function"},
    {"hash_byte", &ProcessorCosts::hash_byte, "ns/B", "each byte of the key"},
    {"compare", &ProcessorCosts::compare, "ns", "fixed part of a comparison"},
    {"compare_byte", &ProcessorCosts::compare_byte, "ns/B", "each byte that is compared"},
    {"copy", &ProcessorCosts::copy, "ns", "fixed part of a copy, with the first miss"},
    {"copy_byte", &ProcessorCosts::copy_byte, "ns/B", "each byte from memory"},
    {"post", &ProcessorCosts::post, "ns", "filling a request, non-temporal stores and their fence"},
};

std::string to_json(const ProcessorCosts& costs) {
  nlohmann::ordered_json out = {{"schema", 1}, {"memory_bytes", costs.memory_bytes}};
  for (const Row& row : rows) {
    const double cost = costs.*row.cost;
    out[row.name] = cost < 0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(cost);
  }
  return out.dump(1) + "\n";
}

std::string to_text(const ProcessorCosts& costs) {
  std::string text = fmt::format("{} of memory; medians of one thread\n", format_size(costs.memory_bytes));
  for (const Row& row : rows) {
    const double cost = costs.*row.cost;
    text += fmt::format("{:<13} {:>8} {:<5} {}\n", row.name, cost < 0 ? "-" : fmt::format("{:.3g}", cost),
                        row.unit, row.what);
  }
  return text;
}

}  // namespace

settings::Command processor_command(ProcessorFlags& flags) {
  using settings::of;
  using settings::Type;
  return {
      .name = "cpu",
      .usage = {"[flags]"},
      .about =
          "Measures what this machine's processor takes for the parts of a server's work: the constants cpu "
          "of a hardware profile. `loch calibrate --cpu` sets them beside the profiles'.",
      .flags = {{.setting = of(Type::size, "memory", "",
                               "memory in which random places are read (half of what is available, at most "
                               "16G)",
                               static_cast<double>(memory_least), static_cast<double>(1ULL << 44)),
                 .place = &flags.memory_bytes},
                {.setting =
                     of(Type::output, "json", "", "write the costs here; -: to standard output, alone"),
                 .place = &flags.json}},
      .statuses = {{"0", "the costs were printed"}, {"1", "the memory cannot be had"}, {"2", "bad input"}},
      .example = "cpu --memory 1G"};
}

int run_processor_command(const std::vector<std::string>& arguments) {
  ProcessorFlags flags;
  const settings::Command command = processor_command(flags);
  if (settings::asks_for_help(arguments)) {
    fmt::print("{}", settings::help(command));
    return 0;
  }
  const auto given = settings::parse(command, arguments);
  if (!given) return settings::refuse(command, given.error().message);
  const std::uint64_t available = available_memory_bytes();
  if (flags.memory_bytes == 0) flags.memory_bytes = std::clamp(available / 2, memory_least, memory_most);
  if (available != 0 && flags.memory_bytes > available) {
    return settings::refuse(command, fmt::format("--memory {}: this machine has {} available",
                                                 format_size(flags.memory_bytes), format_size(available)));
  }
  const ProcessorCosts costs = measure_processor(flags.memory_bytes);
  if (costs.memory_bytes == 0) {
    fmt::print(stderr, "loch cpu: {} of memory cannot be had\n", format_size(flags.memory_bytes));
    return 1;
  }
  if (flags.json != "-") fmt::print("{}", to_text(costs));
  if (flags.json.empty()) return 0;
  const auto is_written = write_output(flags.json, to_json(costs));
  return is_written ? 0 : settings::refuse(command, fmt::format("--json: {}", is_written.error().message));
}

}  // namespace loch::cli
