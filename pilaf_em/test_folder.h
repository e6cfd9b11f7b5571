// A temporary folder for a test, removed at the end of the test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "common/base/check.h"

namespace loch::pilaf::testing {

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pilaf-log-XXXXXX").string();
    LOCH_CHECK(mkdtemp(pattern.data()) != nullptr, "no folder {}", pattern);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace loch::pilaf::testing
