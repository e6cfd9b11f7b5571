// Encodes and parses a log's header and records, and verifies all checksums.
#include "pilaf_em/log_format.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "pilaf_em/checksum.h"

namespace loch::pilaf {
namespace {

constexpr char magic[8] = {'L', 'O', 'C', 'H', 'P', 'L', 'F', '2'};
constexpr std::size_t version_at = 7, crc_at = log_header_bytes - 8;

template <typename T>
void add(std::vector<std::byte>& to, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}
template <typename T>
[[nodiscard]] T take(LogBytes bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool is_synced(std::uint32_t mark) {
  return mark == (RecordHead::put_mark ^ RecordHead::synced_bits) ||
         mark == (RecordHead::remove_mark ^ RecordHead::synced_bits);
}
// The record's mark without the bits that say that everything before the record was synced.
std::uint32_t kind_of(const RecordHead& head) {
  return is_synced(head.mark) ? head.mark ^ RecordHead::synced_bits : head.mark;
}

// The low half of the CRC64 of the record head with its check field set to 0.
std::uint32_t check_of(RecordHead head, std::uint64_t start) {
  head.check = 0;
  return static_cast<std::uint32_t>(crc64({reinterpret_cast<const std::byte*>(&head), sizeof head}, start));
}

}  // namespace

std::vector<std::byte> log_header(const LogOwner& owner) {
  std::vector<std::byte> bytes;
  for (const char c : magic) bytes.push_back(static_cast<std::byte>(c));
  for (const std::uint32_t field :
       {owner.node, owner.server, owner.nodes, owner.servers, owner.key_size, std::uint32_t{0}})
    add(bytes, field);
  add(bytes, owner.seed);
  add(bytes, crc64(bytes));
  LOCH_CHECK_EQ(bytes.size(), log_header_bytes);
  return bytes;
}

std::uint64_t log_salt(const LogOwner& owner) { return take<std::uint64_t>(log_header(owner), crc_at); }

LogHeader compare_header(LogBytes bytes, const LogOwner& owner) {
  const std::vector<std::byte> expected = log_header(owner);
  bytes = bytes.first(std::min(bytes.size(), expected.size()));
  if (std::ranges::equal(bytes, expected)) return LogHeader::right;
  bool is_partial = true;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    is_partial = is_partial && (bytes[i] == expected[i] || bytes[i] == std::byte{0});
  if (is_partial) return LogHeader::partial;
  if (bytes.size() < expected.size() || take<std::uint64_t>(bytes, crc_at) != crc64(bytes.first(crc_at)))
    return LogHeader::broken;
  if (!std::equal(expected.begin(), expected.begin() + version_at, bytes.begin())) return LogHeader::broken;
  return bytes[version_at] == expected[version_at] ? LogHeader::other : LogHeader::older;
}

void add_record(std::vector<std::byte>& to, const Record& record, std::uint64_t at, std::uint64_t salt) {
  const std::uint32_t mark = record.is_put ? RecordHead::put_mark : RecordHead::remove_mark;
  RecordHead head{.mark = mark ^ (record.follows_synced ? RecordHead::synced_bits : 0),
                  .key_bytes = static_cast<std::uint32_t>(record.key.size()),
                  .value_bytes = static_cast<std::uint32_t>(record.value.size()),
                  .number = record.number};
  head.check = check_of(head, salt + at);
  const std::size_t begin = to.size();
  add(to, head);
  to.insert(to.end(), record.key.begin(), record.key.end());
  to.insert(to.end(), record.value.begin(), record.value.end());
  add(to, crc64(LogBytes(to).subspan(begin), salt + at));
}

std::optional<RecordHead> parse_head(LogBytes rest, std::uint64_t at, std::uint64_t salt) {
  if (rest.size() < sizeof(RecordHead)) return std::nullopt;
  const auto head = take<RecordHead>(rest, 0);
  const bool is_put = kind_of(head) == RecordHead::put_mark;
  if (!is_put && (kind_of(head) != RecordHead::remove_mark || head.value_bytes != 0)) return std::nullopt;
  if (head.check != check_of(head, salt + at)) return std::nullopt;
  return head;
}

std::optional<Record> parse_record(LogBytes rest, std::uint64_t at, std::uint64_t salt) {
  const std::optional<RecordHead> head = parse_head(rest, at, salt);
  if (!head || rest.size() < head->whole_bytes()) return std::nullopt;
  const std::size_t body = head->whole_bytes() - sizeof(std::uint64_t);
  if (take<std::uint64_t>(rest, body) != crc64(rest.first(body), salt + at)) return std::nullopt;
  return Record{.is_put = kind_of(*head) == RecordHead::put_mark,
                .follows_synced = is_synced(head->mark),
                .number = head->number,
                .key = rest.subspan(sizeof(RecordHead), head->key_bytes),
                .value = rest.subspan(sizeof(RecordHead) + head->key_bytes, head->value_bytes),
                .bytes = head->whole_bytes()};
}

}  // namespace loch::pilaf
