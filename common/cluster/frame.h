// Messages over a stream: what a rank's two processes, the one that works and the one that holds MPI,
// say to each other over a socket pair. A frame is | payload bytes 4 | kind 4 | rank 4 | payload |.
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
  welcome = 1,  // to the working process, first: the host names of all ranks; rank: its own
  part = 2,     // Kind::part to or from `rank`
  text = 3,     // Kind::text to or from `rank`
  lost = 4,     // to the working process: `rank` is lost; payload: Notice
  left = 5,     // to the working process: `rank` has ended; payload: Notice
  back = 6,     // to the child: `rank` was restarted; payload: Notice. From the child: its acknowledgement
};

struct Frame {
  FrameKind kind = FrameKind::text;
  std::uint32_t rank = 0;
  std::string payload;
};

[[nodiscard]] std::string to_bytes(const Frame& frame);

// Cuts a stream into frames.
class FrameReader {
 public:
  void feed(std::string_view bytes) { held_ += bytes; }
  // The next whole frame; nothing when more bytes are needed; an error (corrupt) when no frame can
  // begin like this: the stream is of no more use.
  [[nodiscard]] Result<std::optional<Frame>> next();

 private:
  std::string held_;
  std::size_t at_ = 0;  // bytes of held_ that have been given out
};

// The payload of a welcome.
[[nodiscard]] std::string to_bytes(const std::vector<std::string>& hosts);
[[nodiscard]] Result<std::vector<std::string>> parse_hosts(std::string_view payload);

}  // namespace loch::cluster
