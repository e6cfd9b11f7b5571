// The scheduling group that background workers and the command that they disturb share.
//
// Linux divides CPU time between groups first and between the tasks of a group then. With autogroup (the
// default) every session is a group: background workers of another session do no more harm at four than at
// one. Inside a cgroup with the cpu controller that cgroup is the group, whatever the session.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace loch::background {

// The scheduling group of this process.
struct GroupFacts {
  std::string kind;  // "cgroup v2", "cgroup v1", "session" (by autogroup), "none" (every task alone)
  std::string path;  // of the cgroup, "" where there is none with the cpu controller
  pid_t session = 0;
  std::optional<int> autogroup;  // kernel.sched_autogroup_enabled; none: the kernel has no such thing
};
[[nodiscard]] GroupFacts current_group();
// The "group" of results.
[[nodiscard]] nlohmann::ordered_json to_json(const GroupFacts& facts);

// Where the cgroup file systems are. A test has its own.
struct CgroupPaths {
  std::string self = "/proc/self/cgroup";
  std::string mounts = "/proc/self/mountinfo";
};

// A cgroup with the cpu controller.
struct Cgroup {
  int version = 2;
  std::string folder;  // in the file system
  std::string path;    // as /proc/self/cgroup has it
};
[[nodiscard]] std::optional<Cgroup> find_cgroup(const CgroupPaths& paths = {});

// A cgroup of our own, in which this process is while it lives; children are born into it.
class CpuGroup {
 public:
  struct Throttled {
    std::uint64_t periods = 0;
    double seconds = 0;
  };
  // `quota`: CPU time a second that all of the group together may have; none: no limit. Errors are
  // `unsupported`, with the reason, where no cgroup with the cpu controller can be made.
  [[nodiscard]] static Result<std::unique_ptr<CpuGroup>> make(std::optional<double> quota,
                                                              const CgroupPaths& paths = {});
  ~CpuGroup();  // moves this process back, and removes the cgroup unless others are in it
  CpuGroup(const CpuGroup&) = delete;
  CpuGroup& operator=(const CpuGroup&) = delete;

  // How often, and for how long, the quota stopped the group.
  [[nodiscard]] Throttled throttled() const;
  [[nodiscard]] const std::string& folder() const { return own_.folder; }

 private:
  CpuGroup() = default;

  Cgroup own_;
  std::string back_;  // folder of the cgroup that this process came from
};

}  // namespace loch::background
