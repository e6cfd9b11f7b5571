// Finds the cgroup or autogroup of this process, and creates a cgroup with a CPU quota where the system
// permits it.
#include "common/background_load/cpu_group.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace loch::background {
namespace {

constexpr int period_us = 100'000;  // quota period of a cgroup: Linux's default of 100 ms

std::string line_of(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

bool has_word(const std::string& text, std::string_view word, char separator) {
  std::istringstream in(text);
  for (std::string each; std::getline(in, each, separator);) {
    if (each == word) return true;
  }
  return false;
}

// Writes `text` by one write(2), because the kernel parses each write to a cgroup file separately.
Result<> put(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  if (out) return {};
  return fail(ErrorCode::unsupported, fmt::format("{} cannot be written: {}", path, std::strerror(errno)));
}

// Returns the mount point of the cgroup hierarchy (for version 1: of the hierarchy with the cpu
// controller) that is mounted with its root directory "/".
std::optional<std::string> mount_of(int version, const std::string& mounts) {
  std::ifstream in(mounts);
  for (std::string line; std::getline(in, line);) {
    // The format of a line of /proc/self/mountinfo: 36 35 98:0 /root /mount/point options … - type source
    // super-options
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream before(line.substr(0, dash)), after(line.substr(dash + 3));
    std::string skip, root, point, type, source, options;
    before >> skip >> skip >> skip >> root >> point;
    after >> type >> source >> options;
    const bool is_it = version == 2 ? type == "cgroup2" : type == "cgroup" && has_word(options, "cpu", ',');
    if (is_it && root == "/") return point;
  }
  return std::nullopt;
}

Result<std::string> make_folder(const std::string& parent) {
  for (int i = 0; i < 100; ++i) {
    std::string folder = fmt::format("{}/loch-{}{}", parent, getpid(), i == 0 ? "" : fmt::format("-{}", i));
    if (mkdir(folder.c_str(), 0755) == 0) return folder;
    if (errno != EEXIST) break;
  }
  return fail(ErrorCode::unsupported,
              fmt::format("no cgroup can be made in {}: {}", parent, std::strerror(errno)));
}

// Returns the folder in which a new cgroup can be created. In cgroup version 2 only leaves may hold
// processes: the new cgroup is a child of this process's cgroup if that cgroup delegates the cpu controller
// to its children (as the root cgroup may), else a sibling.
Result<std::string> parent_for(const Cgroup& cgroup) {
  if (cgroup.version == 1) return cgroup.folder;
  const std::string above = std::filesystem::path(cgroup.folder).parent_path();
  std::vector<std::string> tried = {cgroup.folder};
  if (cgroup.path != "/") tried.push_back(above);
  for (const std::string& folder : tried) {
    if (has_word(line_of(folder + "/cgroup.subtree_control"), "cpu", ' ')) return folder;
  }
  return fail(ErrorCode::unsupported,
              fmt::format("{} gives no cpu controller to a cgroup below it", tried.back()));
}

}  // namespace

std::optional<Cgroup> find_cgroup(const CgroupPaths& paths) {
  std::ifstream in(paths.self);
  std::optional<Cgroup> unified;
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    const int version = controllers.empty() && line.starts_with("0:") ? 2 : 1;
    if (version == 1 && !has_word(controllers, "cpu", ',')) continue;
    const auto mount = mount_of(version, paths.mounts);
    if (!mount) continue;
    Cgroup found{version, *mount + (path == "/" ? "" : path), path};
    if (version == 1) return found;  // the only one: version 1 attaches a controller to one hierarchy
    unified = std::move(found);
  }
  if (!unified) return std::nullopt;
  // The cgroup counts only if its cgroup.controllers lists the cpu controller. The root cgroup of version
  // 2 lists all controllers of that hierarchy.
  const bool has_cpu = has_word(line_of(unified->folder + "/cgroup.controllers"), "cpu", ' ');
  return has_cpu ? unified : std::nullopt;
}

GroupFacts current_group() {
  GroupFacts facts;
  facts.session = getsid(0);
  const std::string autogroup = line_of("/proc/sys/kernel/sched_autogroup_enabled");
  if (autogroup == "0" || autogroup == "1") facts.autogroup = autogroup == "1" ? 1 : 0;
  const auto cgroup = find_cgroup();
  if (cgroup) facts.path = cgroup->path;
  if (cgroup && cgroup->path != "/") {
    facts.kind = fmt::format("cgroup v{}", cgroup->version);
  } else {
    facts.kind = facts.autogroup == 1 ? "session" : "none";
  }
  return facts;
}

nlohmann::ordered_json to_json(const GroupFacts& facts) {
  nlohmann::ordered_json out = {{"kind", facts.kind}, {"path", facts.path}, {"session", facts.session}};
  out["autogroup"] =
      facts.autogroup ? nlohmann::ordered_json(*facts.autogroup) : nlohmann::ordered_json(nullptr);
  return out;
}

Result<std::unique_ptr<CpuGroup>> CpuGroup::make(std::optional<double> quota, const CgroupPaths& paths) {
  const auto cgroup = find_cgroup(paths);
  if (!cgroup) return fail(ErrorCode::unsupported, "no cgroup file system here has the cpu controller");
  LOCH_ASSIGN(const std::string parent, parent_for(*cgroup));
  std::unique_ptr<CpuGroup> group(new CpuGroup);
  LOCH_ASSIGN(group->own_.folder, make_folder(parent));
  group->own_.version = cgroup->version;
  const std::string& folder = group->own_.folder;
  if (quota) {
    const auto quota_us = std::max(1'000L, std::lround(*quota * period_us));
    if (cgroup->version == 2) {
      LOCH_TRY(put(folder + "/cpu.max", fmt::format("{} {}", quota_us, period_us)));
    } else {
      LOCH_TRY(put(folder + "/cpu.cfs_period_us", std::to_string(period_us)));
      LOCH_TRY(put(folder + "/cpu.cfs_quota_us", std::to_string(quota_us)));
    }
  }
  LOCH_TRY(put(folder + "/cgroup.procs", std::to_string(getpid())));
  group->back_ = cgroup->folder;
  return group;
}

CpuGroup::~CpuGroup() {
  if (!back_.empty()) (void)put(back_ + "/cgroup.procs", std::to_string(getpid()));
  if (!own_.folder.empty()) rmdir(own_.folder.c_str());
}

CpuGroup::Throttled CpuGroup::throttled() const {
  Throttled out;
  std::ifstream in(own_.folder + "/cpu.stat");
  std::string key;
  for (std::uint64_t value = 0; in >> key >> value;) {
    if (key == "nr_throttled") out.periods = value;
    if (key == "throttled_usec") out.seconds = static_cast<double>(value) / 1e6;
    if (key == "throttled_time") out.seconds = static_cast<double>(value) / 1e9;
  }
  return out;
}

}  // namespace loch::background
