// Frames on the socket pair between the two processes of a rank: the working process (child), and the
// launcher process. A frame is | payload bytes 4 | kind 4 | rank 4 | payload | (sizes in
// bytes).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/cluster/message.h"

namespace loch::cluster {

enum class FrameKind : std::uint32_t {
  welcome = 1,  // to the child, as first frame: host names of all ranks; `rank` is the child's
  part = 2,     // contribution to a collective call (Kind::part), to or from `rank`
  text = 3,     // message of Control::send() (Kind::text), to or from `rank`
  lost = 4,     // to the child: `rank` is lost; payload: Notice
  left = 5,     // to the child: `rank` has ended; payload: Notice
  // to the child: `rank` was restarted (payload: Notice); from the child: it has read that frame
  back = 6,
};

struct Frame {
  FrameKind kind = FrameKind::text;
  std::uint32_t rank = 0;
  std::string payload;
};

[[nodiscard]] std::string to_bytes(const Frame& frame);

// Splits a byte stream into frames.
class FrameReader {
 public:
  void feed(std::string_view bytes) { held_ += bytes; }
  // Returns the next complete frame, an empty optional if more bytes are needed, or the error `corrupt`
  // if no valid frame begins here; the stream is then unusable.
  [[nodiscard]] Result<std::optional<Frame>> next();

 private:
  std::string held_;
  std::size_t at_ = 0;  // number of bytes of held_ that next() has consumed
};

// Formats the payload of a welcome frame: the host names of all ranks.
[[nodiscard]] std::string to_bytes(const std::vector<std::string>& hosts);
[[nodiscard]] Result<std::vector<std::string>> parse_hosts(std::string_view payload);

}  // namespace loch::cluster
