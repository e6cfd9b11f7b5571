// Tests how the cgroup of a process is found, by version and controller.
#include "common/background_load/cpu_group.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace loch::background {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the cgroup that find_cgroup() finds; its version is 0 if it finds none.
Cgroup found_in(const CgroupPaths& paths = {}) {
  return find_cgroup(paths).value_or(Cgroup{.version = 0, .folder = "", .path = ""});
}

// A folder laid out like the kernel's cgroup file system, but of plain files: text written to them
// remains.
class FakeCgroups : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  CgroupPaths paths() { return {(root_ / "self").string(), (root_ / "mounts").string()}; }
  // Returns the path of `name` in the fake tree. CpuGroup::make() fails in this tree, because mkdir on an
  // ordinary file system creates no cgroup control files; the folder that it made remains for the test to
  // inspect.
  [[nodiscard]] std::string at(const std::string& name) const { return (root_ / name).string(); }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / fmt::format("loch_cgroup_{}", getpid());
};

TEST_F(FakeCgroups, VersionTwoWithTheCpuController) {
  write("mounts", fmt::format("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", at("fs")));
  write("self", "0::/user.slice/a.scope\n");
  write("fs/user.slice/a.scope/cgroup.controllers", "cpuset cpu io memory\n");
  const Cgroup found = found_in(paths());
  EXPECT_EQ(found.version, 2);
  EXPECT_EQ(found.path, "/user.slice/a.scope");
  EXPECT_EQ(found.folder, at("fs/user.slice/a.scope"));
}

TEST_F(FakeCgroups, VersionTwoWithoutTheCpuController) {
  write("mounts", fmt::format("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", at("fs")));
  write("self", "0::/\n");
  write("fs/cgroup.controllers", "io memory cpuset\n");
  EXPECT_FALSE(find_cgroup(paths()).has_value());
  const auto made = CpuGroup::make(1.0, paths());
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
}

TEST_F(FakeCgroups, VersionOneIsFoundByItsController) {
  write("mounts",
        fmt::format("31 23 0:27 / {} rw - cgroup cgroup rw,cpuacct\n"
                    "32 23 0:28 / {} rw - cgroup cgroup rw,cpu\n30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n",
                    at("cpuacct"), at("cpu"), at("unified")));
  write("self", "3:cpuset:/x\n2:cpuacct:/a\n1:cpu:/b\n0::/\n");
  const Cgroup found = found_in(paths());
  EXPECT_EQ(found.version, 1);
  EXPECT_EQ(found.folder, at("cpu/b"));
}

TEST_F(FakeCgroups, AGroupGoesToTheSiblingsWhereOnesOwnHasProcesses) {
  write("mounts", fmt::format("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", at("fs")));
  write("self", "0::/slice/a.scope\n");
  write("fs/slice/a.scope/cgroup.controllers", "cpu\n");
  write("fs/slice/a.scope/cgroup.subtree_control", "\n");
  write("fs/slice/cgroup.subtree_control", "cpu memory\n");
  const std::string expected = at(fmt::format("fs/slice/loch-{}", getpid()));
  auto made = CpuGroup::make(1.5, paths());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ((*made)->folder(), expected);
  EXPECT_EQ(text_of(expected + "/cpu.max"), "150000 100000");
  EXPECT_EQ(text_of(expected + "/cgroup.procs"), std::to_string(getpid()));
  write(fmt::format("fs/slice/loch-{}/cpu.stat", getpid()),
        "usage_usec 7\nnr_throttled 3\nthrottled_usec 1500000\n");
  EXPECT_EQ((*made)->throttled().periods, 3U);
  EXPECT_DOUBLE_EQ((*made)->throttled().seconds, 1.5);
  made->reset();
  EXPECT_EQ(text_of(at("fs/slice/a.scope/cgroup.procs")), std::to_string(getpid())) << "it goes back";
}

TEST_F(FakeCgroups, NoDelegationIsSaid) {
  write("mounts", fmt::format("30 23 0:26 / {} rw - cgroup2 cgroup2 rw\n", at("fs")));
  write("self", "0::/slice/a.scope\n");
  write("fs/slice/a.scope/cgroup.controllers", "cpu\n");
  const auto made = CpuGroup::make(std::nullopt, paths());
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, testing::HasSubstr("gives no cpu controller"));
}

TEST(CpuGroup, ThisMachineHasAnAnswer) {
  const GroupFacts facts = current_group();
  EXPECT_EQ(facts.session, getsid(0));
  EXPECT_THAT(facts.kind, testing::AnyOf("cgroup v1", "cgroup v2", "session", "none"));
  EXPECT_EQ(to_json(facts).at("kind"), facts.kind);
}

// While a CpuGroup exists, this process is in the new cgroup; afterwards it is in its former cgroup again.
TEST(CpuGroup, IsEnteredAndLeft) {
  const Cgroup before = found_in();
  auto made = CpuGroup::make(std::nullopt);
  if (!made) GTEST_SKIP() << made.error().message;
  EXPECT_NE(found_in().path, before.path);
  EXPECT_THAT(current_group().kind, testing::StartsWith("cgroup v"));
  const std::string folder = (*made)->folder();
  made->reset();
  EXPECT_EQ(found_in().path, before.path);
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace loch::background
