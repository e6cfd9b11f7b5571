// Tests regions by node and name, their memory, and the errors of set-up.
#include "common/fabric/realtime/regions.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/fabric/realtime/mapping.h"

namespace loch::fabric::realtime {
namespace {

std::unique_ptr<Region> region(NodeId node, std::uint32_t id, const char* name) {
  return std::make_unique<Region>(node, id, name, nullptr, 64, Elision{});
}

TEST(Regions, AreFoundByNodeAndName) {
  Regions<Region> regions(2);
  const Region* index = regions.add(region(0, 0, "index"));
  const Region* data = regions.add(region(0, 1, "data"));
  const Region* other = regions.add(region(1, 0, "index"));
  EXPECT_EQ(regions.find(0, "index"), index);
  EXPECT_EQ(regions.find(0, "data"), data);
  EXPECT_EQ(regions.find(1, "index"), other);
  EXPECT_EQ(regions.find(1, "data"), nullptr);
  EXPECT_EQ(regions.find(2, "index"), nullptr);
  EXPECT_EQ(regions.next_id(0), 2u);
  EXPECT_EQ(regions.of(1).size(), 1u);
}

std::string said(const Result<>& checked) { return checked ? "" : checked.error().message; }

TEST(Checks, RefusesRegionsInOneLine) {
  constexpr Stage in_time{.is_local = true}, elsewhere{}, late{.is_local = true, .is_exchanged = true};
  RegionSpec spec{"index", 64, true, false, true, {}};
  EXPECT_EQ(said(check_region(3, spec, in_time, false)), "");
  EXPECT_EQ(said(check_region(3, spec, elsewhere, false)),
            "region \"index\" of node 3: the node is not of this process");
  EXPECT_EQ(said(check_region(3, spec, late, false)),
            "region \"index\" of node 3: registered after the exchange");
  EXPECT_EQ(said(check_region(3, spec, in_time, true)), "region \"index\" of node 3: the name is taken");
  spec.bytes = 0;
  EXPECT_EQ(said(check_region(3, spec, in_time, false)), "region \"index\" of node 3: has no bytes");
  spec = {"", 64, true, false, true, {}};
  EXPECT_EQ(said(check_region(3, spec, in_time, false)),
            "region \"\" of node 3: the name has 1 to 95 characters");
  spec.name = std::string(95, 'x');
  EXPECT_EQ(said(check_region(3, spec, in_time, false)), "");
  spec.name = std::string(96, 'x');
  EXPECT_FALSE(check_region(3, spec, in_time, false).has_value());
}

TEST(Checks, RefusesWorkersLookUpsAndShapesInOneLine) {
  const WorkerSpec spec{.node = 1, .role = Role::client, .index = 2, .core = -1, .name = "client"};
  EXPECT_EQ(said(check_worker(spec, {.is_local = true})), "");
  EXPECT_EQ(said(check_worker(spec, {})), "worker 2 of node 1: the node is not of this process");
  EXPECT_EQ(said(check_worker(spec, {.is_local = true, .is_exchanged = true})),
            "worker 2 of node 1: added after the exchange");
  EXPECT_EQ(unknown_region(1, "data", false).error().message,
            "region \"data\" of node 1: looked up before the exchange");
  EXPECT_EQ(unknown_region(1, "data", true).error().message, "region \"data\" of node 1: not registered");
  EXPECT_EQ(said(check_nodes("shm", 1, {})), "");
  EXPECT_EQ(said(check_nodes("shm", 4096, 4096)), "");
  EXPECT_EQ(said(check_nodes("shm", 0, {})), "shm: 0 nodes; expected 1 to 4096");
  EXPECT_EQ(said(check_nodes("verbs", 4097, {})), "verbs: 4097 nodes; expected 1 to 4096");
  EXPECT_EQ(said(check_nodes("verbs", 3, 2)), "verbs: 2 processes for 3 nodes; each process is one node");
}

TEST(Memory, IsZeroedAndRefusedWhereThereIsNone) {
  const Result<Mapping> memory = zeroed_memory(10'000);
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->bytes(), 10'000u);
  EXPECT_TRUE(std::all_of(memory->data(), memory->data() + memory->bytes(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
  const Result<Mapping> too_large = zeroed_memory(std::size_t{1} << 60);
  ASSERT_FALSE(too_large.has_value());
  EXPECT_EQ(too_large.error().code, ErrorCode::exhausted);
  EXPECT_TRUE(too_large.error().message.starts_with("no memory of 1152921504606846976 bytes: "))
      << too_large.error().message;
}

TEST(Memory, IsThereOncePopulated) {
  constexpr std::size_t bytes = (std::size_t{130} << 20) + 5'000;  // three pieces, and not whole pages
  const Mapping memory = zeroed_memory(bytes).value();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto pages_there = [&] {
    std::vector<unsigned char> is_there((bytes + page - 1) / page);
    EXPECT_EQ(mincore(memory.data(), bytes, is_there.data()), 0);
    return std::ranges::count_if(is_there, [](unsigned char each) { return (each & 1) != 0; });
  };
  EXPECT_EQ(pages_there(), 0);
  populate(memory);
  EXPECT_EQ(pages_there(), (bytes + page - 1) / page);
}

// A region that would fill less than half of a huge page gets ordinary pages.
TEST(Memory, OfLessThanHalfAHugePageIsNotHuge) {
  EXPECT_FALSE(huge_memory((1 << 20) - 1).has_value());
  const std::optional<Mapping> huge = huge_memory((2 << 20) + 1);
  if (huge) EXPECT_EQ(huge->bytes(), 4u << 20);
}

std::uint64_t faults() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<std::uint64_t>(used.ru_minflt);
}

// Status of a forked process: 0, or which of its expectations failed.
int check_own_pages(const Mapping& mapping, const std::vector<std::byte>& expected, std::byte* other) {
  if (!own_pages(mapping, std::nullopt)) return 1;
  if (std::memcmp(mapping.data(), expected.data(), expected.size()) != 0) return 2;
  const std::uint64_t before = faults();
  for (std::size_t at = 0; at < mapping.bytes(); at += 4096) mapping.data()[at] = std::byte{7};
  const std::uint64_t own = faults() - before;
  for (std::size_t at = 0; at < mapping.bytes(); at += 4096) other[at] = std::byte{7};
  const std::uint64_t shared = faults() - before - own;
  // The kernel copies the pages of the memory that was not made this process's own.
  return own * 4 < shared ? 0 : 3;
}

// After a fork the child has pages of its own at the same addresses, and its stores do not reach its parent.
TEST(Memory, OfAForkedProcessBecomesItsOwn) {
  constexpr std::size_t bytes = (5 << 20) + 12'288;
  Mapping first = zeroed_memory(bytes).value(), second = zeroed_memory(bytes).value();
  for (const Mapping* each : {&first, &second}) {
    (void)madvise(each->data(), bytes, MADV_NOHUGEPAGE);
    for (std::size_t at = 0; at < bytes; ++at) each->data()[at] = static_cast<std::byte>(1 + at % 251);
  }
  const std::vector<std::byte> expected(first.data(), first.data() + bytes);
  const pid_t child = fork();
  if (child == 0) _exit(check_own_pages(first, expected, second.data()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(std::memcmp(first.data(), expected.data(), bytes), 0);
}

}  // namespace
}  // namespace loch::fabric::realtime
