// Parses lists of cores, and chooses the cores of background processes.
#include "common/background_load/cores.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace loch::background {
namespace {

bool parse_number(std::string_view text, std::uint32_t& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size() && into < CPU_SETSIZE;
}

}  // namespace

Result<std::vector<std::uint32_t>> parse_cores(std::string_view text, std::string_view what) {
  std::set<std::uint32_t> cores;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto dash = part.find('-');
    std::uint32_t first = 0, last = 0;
    const bool is_good = parse_number(part.substr(0, dash), first) &&
                         (dash == std::string_view::npos || parse_number(part.substr(dash + 1), last));
    if (dash == std::string_view::npos) last = first;
    if (!is_good || last < first)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{}: \"{}\" is not a list of cores such as 0-3,6", what, text));
    for (std::uint32_t core = first; core <= last; ++core) cores.insert(core);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return std::vector<std::uint32_t>(cores.begin(), cores.end());
}

std::string format_cores(const std::vector<std::uint32_t>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t end = i + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end - i == 1 ? fmt::format("{}", cores[i]) : fmt::format("{}-{}", cores[i], cores[end - 1]);
    i = end;
  }
  return text;
}

std::vector<std::uint32_t> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint32_t> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

Result<std::vector<std::uint32_t>> place_background_load(std::string_view pin, std::string_view what,
                                                         const std::vector<std::uint32_t>& theirs,
                                                         const std::vector<std::uint32_t>& usable) {
  if (pin == "none") return std::vector<std::uint32_t>();
  if (pin == "shared") return theirs;
  std::vector<std::uint32_t> left;
  std::ranges::copy_if(usable, std::back_inserter(left),
                       [&](std::uint32_t core) { return std::ranges::find(theirs, core) == theirs.end(); });
  if (left.empty())
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} separate: no core is left: of {}, all are in use by what is disturbed", what,
                            format_cores(usable)));
  return left;
}

}  // namespace loch::background
