// Simulates power failures, failed syncs and full disks, and the file contents that they leave behind.
#include "pilaf_em/lying_disk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"

namespace loch::pilaf::testing {
namespace {

std::unexpected<Error> failed(const char* what) { return fail(ErrorCode::unavailable, what); }
std::unexpected<Error> off() { return failed("the machine has no power"); }

}  // namespace

class LyingDisk::Handle final : public LogFile {
 public:
  Handle(LyingDisk& disk, File& file) : disk_(disk), file_(file), incarnation_(disk.incarnations_) {}

  Result<std::uint64_t> size() override {
    LOCH_CHECK(incarnation_ == disk_.incarnations_, "a dead process's file");
    if (disk_.is_off_) return off();
    return file_.cache.size();
  }

  Result<std::size_t> read(std::uint64_t at, std::span<std::byte> out) override {
    if (disk_.is_off_) return off();
    if (disk_.plan.reads_fail) return failed("cannot be read: Input/output error");
    if (at >= file_.cache.size()) return 0;
    const std::size_t bytes = std::min<std::size_t>(out.size(), file_.cache.size() - at);
    std::memcpy(out.data(), file_.cache.data() + at, bytes);
    return bytes;
  }

  Result<std::size_t> write(std::uint64_t at, std::span<const std::byte> bytes) override {
    LOCH_CHECK(incarnation_ == disk_.incarnations_, "a dead process's file");
    const bool has_power = !disk_.fails_here();
    if (disk_.is_off_ && has_power) return off();
    std::size_t taken = bytes.size();
    const bool is_full = disk_.plan.full_at != 0 && disk_.calls_ >= disk_.plan.full_at;
    if (is_full || !has_power)
      taken = disk_.below(bytes.size() + 1);
    else if (disk_.plan.writes_are_short)
      taken = 1 + disk_.below(bytes.size());
    if (taken > 0)
      disk_.change(file_,
                   {.at = at, .bytes = {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken)}});
    if (!has_power) {
      disk_.is_off_ = true;
      return off();
    }
    if (is_full && disk_.plan.hides_failures) return bytes.size();
    // A full disk may report a partial write first, and fail on the next call.
    if (is_full && (taken == 0 || disk_.below(2) == 0))
      return failed("cannot be written: No space left on device");
    return taken;
  }

  Result<> sync() override {
    const bool has_power = !disk_.fails_here();
    if (disk_.is_off_ && has_power) return off();
    if (!has_power) {
      if (disk_.below(4) == 0 && !disk_.plan.ignores_sync) disk_.bring(file_);
      disk_.is_off_ = true;
      return off();
    }
    if (disk_.plan.ignores_sync) return {};
    if (disk_.plan.sync_fails_at != 0 && disk_.calls_ >= disk_.plan.sync_fails_at) {
      disk_.plan.sync_fails_at = 0;
      disk_.settle(file_);  // as on Linux, data that a failed sync did not write counts as synced
      if (disk_.plan.hides_failures) return {};
      return failed("cannot be brought to the disk: Input/output error");
    }
    disk_.bring(file_);
    return {};
  }

  Result<> truncate(std::uint64_t bytes) override {
    const bool has_power = !disk_.fails_here();
    if (disk_.is_off_ && has_power) return off();
    if (has_power || disk_.below(2) == 0)
      disk_.change(file_, {.is_truncation = true, .at = bytes, .bytes = {}});
    if (has_power) return {};
    disk_.is_off_ = true;
    return off();
  }

 private:
  LyingDisk& disk_;
  File& file_;
  std::uint64_t incarnation_;
};

Result<std::unique_ptr<LogFile>> LyingDisk::open(const std::string& path) {
  if (is_off_) return off();
  return std::make_unique<Handle>(*this, files_[path]);
}

Result<> LyingDisk::sync_name(const std::string& path) {
  const bool has_power = !fails_here();
  if (is_off_ && has_power) return off();
  File& file = files_[path];
  if (!plan.ignores_sync) file.is_named = file.is_named || has_power || below(2) == 0;
  if (has_power) return {};
  is_off_ = true;
  return off();
}

bool LyingDisk::fails_here() {
  if (is_off_) return false;
  return ++calls_ == plan.power_fails_at;
}

void LyingDisk::change(File& file, Change change) {
  apply(change, file.cache);
  file.unsynced.push_back(std::move(change));
}

void LyingDisk::apply(const Change& change, std::vector<std::byte>& to) {
  if (change.is_truncation) {
    to.resize(change.at);
    return;
  }
  if (to.size() < change.at + change.bytes.size()) to.resize(change.at + change.bytes.size());
  std::ranges::copy(change.bytes, to.begin() + static_cast<std::ptrdiff_t>(change.at));
}

void LyingDisk::bring(File& file) {
  for (const Change& change : std::exchange(file.unsynced, {})) apply(change, file.platter);
  // A successful sync also writes the file's size, which file systems keep in their journal, even if data of
  // an earlier, failed sync is missing.
  file.platter.resize(file.cache.size());
}

// Applies the change to a random subset of the sectors that it covers.
void LyingDisk::apply_part(const Change& change, std::uint64_t sector, std::vector<std::byte>& to) {
  if (change.is_truncation) return apply(change, to);
  const std::uint64_t end = change.at + change.bytes.size();
  for (std::uint64_t at = change.at; at < end;) {
    const std::uint64_t next = std::min(end, (at / sector + 1) * sector);
    const auto from = change.bytes.begin() + static_cast<std::ptrdiff_t>(at - change.at);
    if (below(2) == 0) apply({.at = at, .bytes = {from, from + static_cast<std::ptrdiff_t>(next - at)}}, to);
    at = next;
  }
}

void LyingDisk::settle(File& file) {
  const std::vector<Change> changes = std::exchange(file.unsynced, {});
  const std::uint64_t size = file.cache.size();
  const std::uint64_t kind = below(6), sector = std::uint64_t{1} << (below(2) == 0 ? 9 : below(13));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    switch (kind) {
      case 0:  // no unsynced write reaches the platter
        break;
      case 1:  // every unsynced write reaches the platter
        apply(change, file.platter);
        break;
      case 2:  // a random subset of the unsynced writes reaches the platter
        if (below(2) == 0) apply(change, file.platter);
        break;
      case 3:  // some sectors of each unsynced write reach the platter
        apply_part(change, sector, file.platter);
        break;
      case 4:  // only the last unsynced write reaches the platter
        if (i + 1 == changes.size()) apply(change, file.platter);
        break;
      case 5:  // all unsynced writes reach the platter, the last one only in part
        if (i + 1 < changes.size() || change.is_truncation) {
          apply(change, file.platter);
        } else {
          const auto taken = static_cast<std::ptrdiff_t>(below(change.bytes.size() + 1));
          apply({.at = change.at, .bytes = {change.bytes.begin(), change.bytes.begin() + taken}},
                file.platter);
        }
        break;
      default:
        break;
    }
  }
  // The new file size may reach the platter before the data does.
  if (file.platter.size() < size && below(3) == 0) file.platter.resize(size);
}

void LyingDisk::kill() {
  ++incarnations_;
  if (below(2) == 0) return;
  for (auto& [path, file] : files_) {
    const std::size_t size = file.cache.size();
    file.cache = file.platter;
    for (const Change& change : file.unsynced) apply(change, file.cache);
    file.cache.resize(size);
  }
}

void LyingDisk::restart() {
  ++incarnations_;
  is_off_ = false;
  plan = {};
  for (auto& [path, file] : files_) {
    settle(file);
    if (!file.is_named && below(2) == 0) file.platter.clear();
    file.cache = file.platter;
    file.is_named = !file.platter.empty();
  }
}

void LyingDisk::set_contents(const std::string& path, std::vector<std::byte> bytes) {
  File& file = files_[path];
  file.cache = file.platter = std::move(bytes);
  file.unsynced.clear();
  file.is_named = true;
}

}  // namespace loch::pilaf::testing
