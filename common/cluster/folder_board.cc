// Leaves items as files for other launcher processes, and looks for those that are meant for this one.
#include "common/cluster/folder_board.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

namespace loch::cluster {
namespace {

namespace fs = std::filesystem;

Result<> make_own_folder(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    return fail(ErrorCode::unavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  struct stat found{};
  if (lstat(path.c_str(), &found) != 0)
    return fail(ErrorCode::unavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(ErrorCode::unavailable,
                fmt::format("{}: expected a folder of this user that nobody else may write to", path));
  }
  return {};
}

std::string file_name(const Slot& slot) { return fmt::format("{}-{}-{}", slot.lane, slot.from, slot.number); }

class FolderBoard final : public Board {
 public:
  FolderBoard(std::string folder, std::uint32_t rank) : folder_(std::move(folder)), rank_(rank) {}

  void post(const Slot& slot, std::string bytes) override {
    const std::string inbox = inbox_of(slot.to);
    if (const Result<> made = make_own_folder(inbox); !made) return fail_with(made.error().message);
    const std::string path = fmt::format("{}/{}", inbox, file_name(slot)), partial = path + ".part";
    std::ofstream file(partial, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file || std::rename(partial.c_str(), path.c_str()) != 0)
      fail_with(fmt::format("{}: cannot be written", path));
  }

  void expect(const Slot& slot) override { expected_.insert(slot); }

  std::optional<std::pair<Slot, std::string>> take() override {
    if (is_empty_) {  // true: the last listing of the inbox showed no expected item
      is_empty_ = false;
      look();
    }
    for (auto each = expected_.begin(); each != expected_.end(); ++each) {
      if (!there_.contains(file_name(*each))) continue;
      const Slot slot = *each;
      const std::string path = fmt::format("{}/{}", inbox_of(rank_), file_name(slot));
      std::ifstream file(path, std::ios::binary);
      if (!file) continue;
      std::string bytes{std::istreambuf_iterator<char>(file), {}};
      there_.erase(file_name(slot));
      unlink(path.c_str());
      expected_.erase(each);
      return std::pair(slot, std::move(bytes));
    }
    is_empty_ = true;
    return std::nullopt;
  }

  bool is_settled(const Slot& /*slot*/) override { return true; }
  std::string failure() override { return failure_; }

  void forget(std::uint32_t rank) override {
    std::error_code ignored;
    fs::remove_all(inbox_of(rank), ignored);
  }

  void close(bool /*is_whole*/) override {
    forget(rank_);
    rmdir(folder_.c_str());  // fails while the folder still has the inbox of another rank
  }

 private:
  [[nodiscard]] std::string inbox_of(std::uint32_t rank) const { return fmt::format("{}/{}", folder_, rank); }
  void fail_with(std::string reason) {
    if (failure_.empty()) failure_ = std::move(reason);
  }
  // Lists the inbox. Opening a folder makes a client of NFS ask the server whether it has changed; looking
  // for a file by its name may be answered from the client's memory for half a minute.
  void look() {
    there_.clear();
    DIR* inbox = opendir(inbox_of(rank_).c_str());
    if (inbox == nullptr) return;
    while (const dirent* entry = readdir(inbox)) there_.insert(entry->d_name);
    closedir(inbox);
  }

  std::string folder_;
  std::uint32_t rank_;
  std::set<Slot> expected_;
  std::set<std::string> there_;  // names in the inbox when it was last listed
  bool is_empty_ = true;
  std::string failure_;
};

}  // namespace

Result<std::unique_ptr<Board>> open_folder_board(const std::string& folder, std::uint32_t rank) {
  LOCH_TRY(make_own_folder(folder));
  LOCH_TRY(make_own_folder(fmt::format("{}/{}", folder, rank)));
  return std::make_unique<FolderBoard>(folder, rank);
}

}  // namespace loch::cluster
