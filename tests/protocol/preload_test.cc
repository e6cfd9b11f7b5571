// Tests that stores fill their memory by several threads on shared memory, and by the caller's alone where
// time is simulated. The records that they fill it with are read back by the other suites.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "app/cli/registry.h"
#include "common/base/parallel.h"
#include "tests/support/fabrics.h"
#include "workloads/records.h"

namespace loch::cli {
namespace {

constexpr std::uint64_t records = 2'000;
constexpr std::uint32_t key_bytes = 16, value_bytes = 256;

// Records that know which threads asked for their values. The first thread waits in its first record until
// there is another one, which on a busy machine may come late.
class Watched final : public kv::Dataset {
 public:
  explicit Watched(std::size_t expected) : expected_(expected) {}
  [[nodiscard]] std::uint64_t count() const override { return records; }
  [[nodiscard]] std::uint32_t key_size(std::uint64_t i, std::uint32_t largest) const override {
    return inner_.key_size(i, largest);
  }
  [[nodiscard]] std::uint32_t value_size(std::uint64_t i, std::uint32_t largest) const override {
    return inner_.value_size(i, largest);
  }
  void key(std::uint64_t i, std::byte* out) const override { inner_.key(i, out); }
  void value(std::uint64_t i, std::byte* out, std::uint32_t bytes) const override {
    inner_.value(i, out, bytes);
    std::unique_lock lock(mutex_);
    threads_.insert(std::this_thread::get_id());
    has_come_.notify_all();
    const auto is_there = [&] { return threads_.size() >= expected_ || has_given_up_; };
    if (!has_come_.wait_for(lock, std::chrono::seconds(30), is_there)) has_given_up_ = true;
  }
  [[nodiscard]] const std::set<std::thread::id>& threads() const { return threads_; }

 private:
  const workloads::Records inner_ = *workloads::Records::make(
      {.preloaded = records, .most = records, .key_size = key_bytes, .value_size = value_bytes});
  const std::size_t expected_;
  mutable std::mutex mutex_;
  mutable std::condition_variable has_come_;
  mutable std::set<std::thread::id> threads_;
  mutable bool has_given_up_ = false;
};

// The threads that write the preloaded values of a store of two nodes.
std::set<std::thread::id> threads_of_preload(const std::string& protocol, const std::string& on,
                                             std::size_t expected) {
  const kv::Registry registry = make_registry();
  const kv::Module& module = *registry.at(protocol);
  const auto fabric = support::make_fabric(on, {.nodes = 2, .seed = 1, .is_plain = true});
  const kv::DeployConfig config{.nodes = 2,
                                .client_workers = 1,
                                .server_workers = module.default_servers(),
                                .key_size = key_bytes,
                                .value_size = value_bytes,
                                .keys = records,
                                .max_keys = records,
                                .kept_value_bytes = value_bytes,
                                .memory_bytes = 256 << 20,
                                .load_time = 1'000'000'000};
  auto store = module.deploy(config, kv::Options(module.options()), "");
  EXPECT_TRUE(store) << store.error().message;
  if (!store) return {};
  for (const fabric::NodeId node : {0, 1}) EXPECT_TRUE((*store)->setup_node(*fabric, node));
  EXPECT_TRUE(fabric->exchange(10'000'000'000));
  EXPECT_TRUE((*store)->connect(*fabric));
  const Watched data(expected);
  const Result<> done = (*store)->preload(*fabric, data);
  EXPECT_TRUE(done) << done.error().message;
  return data.threads();
}

class Preload : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Protocols, Preload,
                         ::testing::Values("nessie", "nessie-sd", "nessie-hy", "herd", "pilaf", "farm-em",
                                           "farm-em-var", "drtm-em", "race"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(Preload, ThreadsShareItOnSharedMemory) {
  const std::size_t expected = std::min<std::size_t>(usable_cores(), 2);
  EXPECT_GE(threads_of_preload(GetParam(), "shm", expected).size(), expected);
}

TEST_P(Preload, OneThreadDoesItInASimulation) {
  EXPECT_EQ(threads_of_preload(GetParam(), "sim", 1), std::set{std::this_thread::get_id()});
}

}  // namespace
}  // namespace loch::cli
