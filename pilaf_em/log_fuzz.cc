// Fuzzes the log's recovery with any bytes. If the first byte is even, the rest is the file; if it is odd,
// the rest is a script that writes a log and then damages it, because random bytes never have valid
// checksums. The log is opened, or refused with one line and left unchanged; an opened log opens again with
// the same records and drops nothing more; the same holds after a repair.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "pilaf_em/log.h"
#include "pilaf_em/lying_disk.h"

namespace {

using namespace loch;
using namespace loch::pilaf;
using loch::pilaf::testing::LyingDisk;

const LogOwner owner{.node = 1, .server = 2, .nodes = 3, .servers = 4, .key_size = 5, .seed = 6};
const std::string path = "log";
using Records = std::vector<std::vector<std::byte>>;

struct Opened {
  Result<std::unique_ptr<Log>> log;
  Records records;
};

Opened open(LyingDisk& disk, bool repairs) {
  Records records;
  const LogVisitor visitor{.put =
                               [&](LogBytes key, LogBytes value) {
                                 records.emplace_back(key.begin(), key.end());
                                 records.emplace_back(value.begin(), value.end());
                                 return Result<>();
                               },
                           .remove =
                               [&](LogBytes key) {
                                 records.emplace_back(key.begin(), key.end());
                                 return Result<>();
                               }};
  auto log = Log::open(disk, path, owner, {.sync = LogSync::fsync, .repairs = repairs}, visitor);
  return {std::move(log), std::move(records)};
}

// Executes a script of three-byte steps: an action and two parameters.
std::vector<std::byte> play(const std::uint8_t* data, std::size_t size) {
  LyingDisk disk(1);
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file;
  std::size_t at = 0;
  {
    const Opened opened = open(disk, false);
    LOCH_CHECK(opened.log.has_value(), "an empty disk");
    for (; at + 3 <= size && data[at] % 8 < 2; at += 3) {
      const std::vector<std::byte> key(data[at + 1] % 9, std::byte{data[at + 2]}), value(data[at + 2]);
      const bool is_fine =
          data[at] % 8 == 0 ? (*opened.log)->append_put(key, value) : (*opened.log)->append_remove(key);
      LOCH_CHECK(is_fine, "a disk that is well");
    }
    file = disk.contents(path);
  }
  for (; at + 3 <= size && !file.empty(); at += 3) {
    const std::size_t place = (data[at + 1] | std::size_t{data[at + 2]} << 8) % file.size();
    const auto here = file.begin() + static_cast<std::ptrdiff_t>(place);
    const auto some = static_cast<std::ptrdiff_t>(std::min<std::size_t>(data[at] / 8, file.size() - place));
    switch (data[at] % 8) {
      case 2:  // flips a bit
        *here ^= std::byte{1} << data[at] / 8 % 8;
        break;
      case 3:  // cuts off the file's end
        file.resize(place);
        break;
      case 4:  // zeroes a range
        std::fill(here, here + some, std::byte{0});
        break;
      case 5:  // copies bytes from the beginning to another place
        std::copy(file.begin(), file.begin() + std::min(some, here - file.begin()), here);
        break;
      case 6:  // inserts the script's own bytes before this step
        file.insert(here, bytes, bytes + at);
        break;
      default:  // removes bytes
        file.erase(here, here + some);
        break;
    }
  }
  return file;
}

void expect_final(LyingDisk& disk, const Records& records) {
  const std::vector<std::byte> file = disk.contents(path);
  const Opened again = open(disk, false);
  LOCH_CHECK(again.log.has_value(), "{}", again.log.error().message);
  LOCH_CHECK(again.records == records, "other records than before");
  LOCH_CHECK((*again.log)->notes().empty(), "{}", (*again.log)->notes().front());
  LOCH_CHECK(disk.contents(path) == file, "a log that is whole was changed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const std::vector<std::byte> file =
      data[0] % 2 == 0 ? std::vector<std::byte>(bytes + 1, bytes + size) : play(data + 1, size - 1);
  for (const bool repairs : {false, true}) {
    LyingDisk disk(1);
    disk.set_contents(path, file);
    const Opened opened = open(disk, repairs);
    if (opened.log.has_value()) {
      const Recovered& got = (*opened.log)->recovered();
      LOCH_CHECK_EQ((*opened.log)->notes().empty(), got.bytes_dropped == 0 && !got.has_new_header);
      LOCH_CHECK(repairs || (got.intact_dropped == 0 && !got.has_new_header), "repaired without being asked");
      expect_final(disk, opened.records);
      continue;
    }
    const std::string& message = opened.log.error().message;
    LOCH_CHECK(message.starts_with("pilaf.log: log: ") && message.find('\n') == std::string::npos, "{}",
               message);
    LOCH_CHECK(disk.contents(path) == file && disk.calls() == 0, "a refusal changed the file");
  }
  return 0;
}
