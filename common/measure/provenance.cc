// Collects host, kernel, processor, compiler and time for a result.
#include "common/measure/provenance.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "common/base/file.h"
#include "common/base/version.h"

namespace loch::measure {
namespace {

using nlohmann::ordered_json;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// The first line of a /proc or /sys file; null if it cannot be read.
ordered_json line_of(const std::string& path) {
  auto text = read_whole(path, 1 << 20);
  if (!text) return nullptr;
  const std::string line = trimmed(text->substr(0, text->find('\n')));
  return line.empty() ? ordered_json(nullptr) : ordered_json(line);
}

// The value after "label :" in a file such as /proc/cpuinfo; null if there is none.
ordered_json field_of(const std::string& path, std::string_view label) {
  const auto text = read_whole(path, 1 << 24);
  if (!text) return nullptr;
  const auto at = text->find(label);
  if (at == std::string::npos) return nullptr;
  const auto colon = text->find(':', at);
  if (colon == std::string::npos) return nullptr;
  const auto from = text->find_first_not_of(" \t", colon + 1);
  return trimmed(text->substr(from, text->find('\n', from) - from));
}

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

}  // namespace

ordered_json provenance(const std::vector<std::string>& argv) {
  utsname host{};
  ::uname(&host);
  std::array<double, 3> load{};
  if (::getloadavg(load.data(), 3) != 3) load = {-1, -1, -1};
  ordered_json out;
  out["host"] = host.nodename;
  out["time_utc"] = utc_now();
  out["argv"] = argv;
  out["kernel"] = fmt::format("{} {}", host.sysname, host.release);
  out["kernel_cmdline"] = line_of("/proc/cmdline");
  out["machine"] = host.machine;
  out["cpu"] = field_of("/proc/cpuinfo", "model name");
  out["cpus"] = std::thread::hardware_concurrency();
  out["smt"] = line_of("/sys/devices/system/cpu/smt/control");
  out["governor"] = line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  out["no_turbo"] = line_of("/sys/devices/system/cpu/intel_pstate/no_turbo");
  out["numa_nodes"] = line_of("/sys/devices/system/node/online");
  out["transparent_huge_pages"] = line_of("/sys/kernel/mm/transparent_hugepage/enabled");
  out["huge_pages"] = field_of("/proc/meminfo", "HugePages_Total");
  out["memory_total"] = field_of("/proc/meminfo", "MemTotal");
  out["load_average"] = load;
  out["autogroup"] = line_of("/proc/sys/kernel/sched_autogroup_enabled");
  out["compiler"] = build_compiler();
  out["build_flags"] = build_flags();
  return out;
}

}  // namespace loch::measure
