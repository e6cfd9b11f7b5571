// Formats and parses the frames of the stream between a rank's launcher process and its working process.
#include "common/cluster/frame.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

struct FrameHeader {
  std::uint32_t payload_bytes;
  std::uint32_t kind;
  std::uint32_t rank;
};
static_assert(sizeof(FrameHeader) == 12);

}  // namespace

std::string to_bytes(const Frame& frame) {
  LOCH_CHECK_LE(frame.payload.size(), payload_bytes_max);
  const FrameHeader header = {static_cast<std::uint32_t>(frame.payload.size()),
                              static_cast<std::uint32_t>(frame.kind), frame.rank};
  std::array<char, sizeof header> head;
  std::memcpy(head.data(), &header, sizeof header);
  std::string out;
  out.reserve(head.size() + frame.payload.size());
  out.append(head.data(), head.size());
  out += frame.payload;
  return out;
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::string_view rest = std::string_view(held_).substr(at_);
  FrameHeader header{};
  if (rest.size() >= sizeof header) std::memcpy(&header, rest.data(), sizeof header);
  if (header.payload_bytes > payload_bytes_max || header.rank >= ranks_max ||
      (rest.size() >= sizeof header && (header.kind < static_cast<std::uint32_t>(FrameKind::welcome) ||
                                        header.kind > static_cast<std::uint32_t>(FrameKind::back)))) {
    return fail(ErrorCode::corrupt, fmt::format("a frame of kind {} for rank {} with {} bytes", header.kind,
                                                header.rank, header.payload_bytes));
  }
  if (rest.size() < sizeof header + header.payload_bytes) {
    held_.erase(0, at_);
    at_ = 0;
    return std::nullopt;
  }
  at_ += sizeof header + header.payload_bytes;
  return Frame{static_cast<FrameKind>(header.kind), header.rank,
               std::string(rest.substr(sizeof header, header.payload_bytes))};
}

std::string to_bytes(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& host : hosts) {
    out += host;
    out += '\n';
  }
  return out;
}

Result<std::vector<std::string>> parse_hosts(std::string_view payload) {
  std::vector<std::string> hosts;
  while (!payload.empty()) {
    const std::size_t end = payload.find('\n');
    if (end == std::string_view::npos || hosts.size() == ranks_max)
      return fail(ErrorCode::corrupt, "host names are lines");
    hosts.push_back(clean_host(payload.substr(0, end)));
    payload.remove_prefix(end + 1);
  }
  return hosts;
}

}  // namespace loch::cluster
