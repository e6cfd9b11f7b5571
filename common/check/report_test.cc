// Tests the output and the exit status of `loch check`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/check/linearizable.h"

namespace loch::check {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RunCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::path(::testing::TempDir()) / fmt::format("loch_check_{}", ::getpid());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name, const std::vector<Operation>& operations) {
    const std::string path = (directory_ / name).string();
    std::ofstream out(path, std::ios::binary);
    for (const Operation& operation : operations) out << to_line(view(operation));
    return path;
  }

  int run(const std::vector<std::string>& files, CheckOptions options = {}) {
    out_.str("");
    err_.str("");
    return run_check(files, options, out_, err_);
  }

  std::filesystem::path directory_;
  std::ostringstream out_;
  std::ostringstream err_;
};

const std::vector<Operation> writes = {{0, OpKind::put, Outcome::ok, "k", "a", 1, 2},
                                       {0, OpKind::put, Outcome::ok, "k", "b", 3, 4}};
const Operation fresh{1, OpKind::get, Outcome::ok, "k", "b", 5, 6};
const Operation stale{1, OpKind::get, Outcome::ok, "k", "a", 5, 6};

TEST_F(RunCheck, HoldsIsZero) {
  EXPECT_EQ(run({file("a", writes), file("b", {fresh})}), 0);
  EXPECT_EQ(out_.str(), "linearizable: holds: 3 operations on 1 key, corrupt reads 0\n");
}

TEST_F(RunCheck, ViolatedIsOneWithTheSubHistory) {
  EXPECT_EQ(run({file("a", writes), file("b", {stale})}), 1);
  EXPECT_THAT(out_.str(), StartsWith("linearizable: violated: 3 operations on 1 key, 1 violated"));
  EXPECT_THAT(out_.str(), HasSubstr("key k: violated (3 operations)"));
  EXPECT_THAT(out_.str(), HasSubstr("the smallest sub-history found, 3 operations"));
  EXPECT_THAT(out_.str(), HasSubstr("5 .. 6              client 1     GET    -> a"));
}

TEST_F(RunCheck, UnreadableIsTwoWithOneLine) {
  EXPECT_EQ(run({(directory_ / "missing").string()}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("missing: cannot read"));
  EXPECT_EQ(out_.str(), "");
  const std::string cut = file("cut", writes);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 7);
  EXPECT_EQ(run({cut}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("cut:2: expected a line that ends in a newline"));
  EXPECT_EQ(run({file("empty", {})}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("empty: expected at least one operation"));
}

TEST_F(RunCheck, OtherModelsAreWeaker) {
  const std::string path =
      file("a", {writes[0], {1, OpKind::get, Outcome::not_found, "k", std::nullopt, 3, 4}});
  EXPECT_EQ(run({path}), 1);
  EXPECT_EQ(run({path}, {.model = Model::lossy_cache}), 0);
  EXPECT_EQ(run({file("b", {stale})}, {.model = Model::none}), 0);
  EXPECT_THAT(out_.str(), StartsWith("none: not judged: 1 operation on 1 key"));
}

TEST_F(RunCheck, ManyBadKeysAreCounted) {
  std::vector<Operation> bad;
  bad.reserve(25);
  for (int i = 0; i < 25; ++i)
    bad.push_back({0, OpKind::get, Outcome::ok, "k" + std::to_string(i), "nobody's", 1, 2});
  EXPECT_EQ(run({file("a", bad)}), 1);
  EXPECT_THAT(out_.str(), HasSubstr("25 violated, corrupt reads 25"));
  EXPECT_THAT(out_.str(), HasSubstr("… and 15 more keys not shown"));
}

}  // namespace
}  // namespace loch::check
