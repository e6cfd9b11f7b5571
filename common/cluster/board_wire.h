// Carries messages between the launcher processes of the ranks as items that they leave for each other on a
// board (board.h), and lets them agree on the secret of the launch. A lane from one rank to another is a
// stream of bytes, cut into items: messages that are sent while an item is on its way share the next item, so
// that the board holds few items. Urgent messages have a lane of their own.
//
//   | length of the message u64 | message | length u64 | message | …
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/board.h"
#include "common/cluster/message.h"
#include "common/cluster/switchboard.h"

namespace loch::cluster {

class BoardWire final : public Wire {
 public:
  BoardWire(std::unique_ptr<Board> board, std::uint32_t rank, std::uint32_t ranks);

  // Agrees on the secret of the launch with all ranks: rank 0 draws it, and sends it to each other rank
  // encrypted with a key that the two agree on (key_agreement.h). The error names the ranks that have not
  // come within `within`.
  [[nodiscard]] Result<Secret> share_secret(Nanos within);

  // Adds a message to the stream of bytes for rank `to`; push() posts the stream's next bytes on the board.
  void send(std::uint32_t to, std::string bytes, bool is_urgent) override;
  std::optional<std::pair<std::uint32_t, std::string>> receive() override;
  void give_up(std::uint32_t rank) override;

  // Posts the sent messages of each lane (stream to one rank) whose former items are settled
  // (Board::is_settled); to be called repeatedly. Returns whether all messages are posted and settled.
  bool push();
  // Waits, at most for `within`, until other ranks can fetch all sent messages even if this process ends.
  void flush(Nanos within);
  [[nodiscard]] std::string failure() { return board_->failure(); }
  // `text`, followed by why ranks cannot be reached if that is known.
  [[nodiscard]] std::string with_trouble(std::string text);
  [[nodiscard]] int descriptor() const { return board_->descriptor(); }
  void close(bool is_whole) { board_->close(is_whole); }

 private:
  struct Lane {
    std::uint64_t posted = 0, taken = 0;  // numbers of the items to post and to take next
    std::string out;  // messages that were sent, as bytes; the bytes before `out_at` are on the board already
    std::size_t out_at = 0;
    std::string in;                // bytes that arrived and do not make up a whole message yet
    std::size_t skipped_left = 0;  // bytes that are still to come of a message that is too large
  };
  struct Peer {
    Lane messages, urgent;
    bool is_given_up = false;
  };
  bool push_lane(std::uint32_t to, char name, Lane& lane);
  void unpack(std::uint32_t from, Lane& lane, const std::string& item);
  Result<std::vector<std::string>> collect_keys(Nanos within);
  Result<std::pair<std::string, std::string>> await_secret(Nanos within);
  void begin();
  [[nodiscard]] Lane& lane_of(Peer& peer, char lane) { return lane == 'u' ? peer.urgent : peer.messages; }

  std::unique_ptr<Board> board_;
  std::uint32_t rank_, ranks_;
  std::vector<Peer> peers_;
  std::deque<std::pair<std::uint32_t, std::string>> arrived_;
};

}  // namespace loch::cluster
