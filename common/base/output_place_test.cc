// Tests which outputs names denote: files, symbolic links to files, devices, pipes, and open descriptors
// of this process.
#include "common/base/output_place.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace loch {
namespace {

namespace files = std::filesystem;

class Places : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (files::temp_directory_path() / "loch-places-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { files::remove_all(folder_); }
  [[nodiscard]] std::string in(const char* name) const { return (folder_ / name).string(); }

  files::path folder_;
};

TEST_F(Places, AFileIsAFileWhetherItIsThereOrNot) {
  std::ofstream(in("there")) << "x";
  for (const char* name : {"there", "to-be"}) {
    const auto place = output_place(in(name));
    ASSERT_TRUE(place.has_value());
    EXPECT_TRUE(place->is_file);
    EXPECT_EQ(place->path, in(name));
    EXPECT_EQ(why_no_output(in(name)), "");
  }
}

TEST_F(Places, LinksAreFollowedToTheirEndWhichMayNotBeThereYet) {
  files::create_directory(in("other"));
  files::create_symlink("other/target", in("second"));
  files::create_symlink("second", in("first"));
  const auto place = output_place(in("first"));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->path, in("other/target"));
  EXPECT_TRUE(place->is_file);
  files::create_symlink("loop", in("loop"));
  EXPECT_FALSE(output_place(in("loop")).has_value());
}

TEST_F(Places, DevicesAndPipesAreWrittenToAsTheyAre) {
  files::create_symlink("/dev/null", in("null"));
  ASSERT_EQ(::mkfifo(in("pipe").c_str(), 0600), 0);
  for (const std::string& name : {std::string("/dev/null"), in("null"), in("pipe")}) {
    const auto place = output_place(name);
    ASSERT_TRUE(place.has_value()) << name;
    EXPECT_FALSE(place->is_file) << name;
    EXPECT_EQ(place->descriptor, -1) << name;
  }
  const auto device = open_as_it_is(*output_place(in("null")));
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(::write(*device, "x", 1), 1);
  ::close(*device);
}

TEST_F(Places, WhatThisProcessHasOpenIsNotOpenedAgain) {
  files::create_symlink("/dev/stdout", in("out"));
  const std::pair<std::string, int> expected[] = {
      {"-", 1},           {"/dev/stdout", 1}, {"/dev/../dev/stderr", 2}, {"/proc/self/fd/7", 7},
      {"/dev/fd/12", 12}, {in("out"), 1}};
  for (const auto& [name, descriptor] : expected) {
    const auto place = output_place(name);
    ASSERT_TRUE(place.has_value()) << name;
    EXPECT_EQ(place->descriptor, descriptor) << name;
    EXPECT_FALSE(place->is_file) << name;
  }
}

TEST_F(Places, FoldersAndMissingFoldersAreNoOutputs) {
  EXPECT_FALSE(output_place(folder_.string()).has_value());
  EXPECT_NE(why_no_output(folder_.string()).find("folder"), std::string::npos);
  EXPECT_NE(why_no_output(in("no/such/x")).find("folder"), std::string::npos);
}

}  // namespace
}  // namespace loch
