// The kernel's scheduling group that background workers share with the command that they disturb.
//
// Linux divides CPU time first between groups, then between the tasks of each group. With autogroup (the
// default) every session is a group: four background workers in another session take no more CPU time
// than one. A process in a cgroup with the cpu controller belongs to that cgroup's group, whatever its
// session.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace loch::background {

// The kernel's scheduling group of this process.
struct GroupFacts {
  // kind of group: "cgroup v2", "cgroup v1", "session" (autogroup), "none" (each task is scheduled by
  // itself)
  std::string kind;
  std::string path;  // path of the cgroup with the cpu controller; "" if this process is in none
  pid_t session = 0;
  // kernel.sched_autogroup_enabled (0 or 1); no value: the kernel lacks autogroup
  std::optional<int> autogroup;
};
[[nodiscard]] GroupFacts current_group();
// Formats the scheduling group as the "group" object of the result document.
[[nodiscard]] nlohmann::ordered_json to_json(const GroupFacts& facts);

// The files of /proc that name this process's cgroups and their mount points; tests pass files of their
// own.
struct CgroupPaths {
  std::string self = "/proc/self/cgroup";
  std::string mounts = "/proc/self/mountinfo";
};

// A cgroup (version 1 or 2) that has the cpu controller.
struct Cgroup {
  int version = 2;
  std::string folder;  // path of the cgroup's folder in the mounted cgroup file system
  std::string path;    // path of the cgroup as listed in /proc/self/cgroup
};
[[nodiscard]] std::optional<Cgroup> find_cgroup(const CgroupPaths& paths = {});

// A new cgroup that holds this process for as long as the CpuGroup object lives. Child processes forked
// meanwhile start in that cgroup.
class CpuGroup {
 public:
  struct Throttled {
    std::uint64_t periods = 0;
    double seconds = 0;
  };
  // Creates the cgroup and moves this process into it. `quota`: CPU time in seconds per second that all
  // processes of the group together may use; no value means no limit. Fails with `unsupported` and the
  // reason where no cgroup with the cpu controller can be created.
  [[nodiscard]] static Result<std::unique_ptr<CpuGroup>> make(std::optional<double> quota,
                                                              const CgroupPaths& paths = {});
  // moves this process back to its former cgroup; removes the new cgroup unless other processes are in it
  ~CpuGroup();
  CpuGroup(const CpuGroup&) = delete;
  CpuGroup& operator=(const CpuGroup&) = delete;

  // Number of quota periods in which the kernel stopped the group's processes, and for how many seconds in
  // all.
  [[nodiscard]] Throttled throttled() const;
  [[nodiscard]] const std::string& folder() const { return own_.folder; }

 private:
  CpuGroup() = default;

  Cgroup own_;
  std::string back_;  // folder of the cgroup to which the destructor returns this process
};

}  // namespace loch::background
