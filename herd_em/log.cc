// Appends to, reads from and overwrites entries of HERD's circular log.
#include "herd_em/log.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace loch::herd {

Log::Log(std::uint64_t capacity, LogDefects defects)
    : memory_((std::max<std::uint64_t>(capacity, 8) + 7) / 8 * 8), defects_(defects) {}

void Log::put(std::uint64_t offset, const void* bytes, std::uint64_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  const std::uint64_t at = place(offset);
  const std::uint64_t here = std::min(count, memory_.size() - at);
  std::memcpy(memory_.data() + at, from, here);
  if (here < count) std::memcpy(memory_.data(), from + here, count - here);
}

void Log::get(std::uint64_t offset, void* out, std::uint64_t count) const {
  auto* to = static_cast<std::byte*>(out);
  const std::uint64_t at = place(offset);
  const std::uint64_t here = std::min(count, memory_.size() - at);
  std::memcpy(to, memory_.data() + at, here);
  if (here < count) std::memcpy(to + here, memory_.data(), count - here);
}

std::uint64_t Log::append(const Header& header, const std::byte* value) {
  const std::uint64_t bytes = entry_bytes(header.kept);
  LOCH_CHECK_LE(bytes, memory_.size());
  const std::uint64_t offset = head_;
  // In a real server this defect would write past the end of the log's memory; here those bytes are dropped,
  // so that no other memory is corrupted.
  const bool is_cut = defects_.wrap_underflows && offset >= memory_.size();
  const std::uint64_t room = is_cut ? memory_.size() - place(offset) : bytes;
  put(offset, &header, std::min<std::uint64_t>(sizeof header, room));
  if (room > sizeof header)
    put(offset + sizeof header, value, std::min<std::uint64_t>(header.kept, room - sizeof header));
  head_ += bytes;
  if (head_ - lap_ >= memory_.size()) lap_ += memory_.size();
  return offset;
}

void Log::rewrite(std::uint64_t offset, const Header& header, const std::byte* value) {
  put(offset, &header, sizeof header);
  put(offset + sizeof header, value, header.kept);
}

Log::Header Log::header(std::uint64_t offset) const {
  Header header;
  get(offset, &header, sizeof header);
  return header;
}

void Log::read_value(std::uint64_t offset, std::byte* out, std::uint32_t bytes) const {
  get(offset + sizeof(Header), out, bytes);
}

void Log::overwrite_value(std::uint64_t offset, const std::byte* value, std::uint32_t bytes) {
  put(offset + sizeof(Header), value, bytes);
}

void Log::prefetch(std::uint64_t offset) const {
  const std::uint64_t at = place(offset);
  __builtin_prefetch(memory_.data() + at);
  __builtin_prefetch(memory_.data() + std::min(at + 64, memory_.size() - 1));
}

}  // namespace loch::herd
