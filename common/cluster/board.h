// A board is a place, such as a shared folder, where the launcher processes of one launch leave items for
// each other, or what passes for one (tcp_board.h). Each item is named by sender, receiver, lane (an ordered
// stream of items from one sender to one receiver) and its number in that lane. No call waits for a rank,
// which may be dead.
//
// The first item of lane k, the public key of a rank, is the same for all receivers, and known to be of its
// sender: nobody else can have left it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/base/result.h"

namespace loch::cluster {

// The name of an item (a message left on a board), unique within a launch.
struct Slot {
  char lane = 'm';  // 'k': keys, 'm': messages, 'u': urgent messages
  std::uint32_t from = 0, to = 0;
  std::uint64_t number = 0;  // counts the items of one lane (stream) from one sender to one receiver
  auto operator<=>(const Slot&) const = default;
};

inline constexpr std::size_t item_bytes_max = std::size_t{1} << 20;

class Board {
 public:
  virtual ~Board() = default;
  // Leaves an item, of at most item_bytes_max bytes, on the board for its receiver.
  virtual void post(const Slot& slot, std::string bytes) = 0;
  // Asks for an item; take() returns it once it is there.
  virtual void expect(const Slot& slot) = 0;
  [[nodiscard]] virtual std::optional<std::pair<Slot, std::string>> take() = 0;
  // Whether every item that was posted in the lane (stream of items) that `slot` names is on its way to the
  // receiver, which can fetch it even if this process ends.
  [[nodiscard]] virtual bool is_settled(const Slot& slot) = 0;
  // The reason why this board (place where launchers leave items for each other) can no longer be used; empty
  // while it is usable.
  [[nodiscard]] virtual std::string failure() = 0;
  // Why some ranks cannot be reached at present, for messages; empty if nothing is known to hinder.
  [[nodiscard]] virtual std::string trouble() { return ""; }
  // A descriptor that poll(2) finds readable when take() has something to do; -1 if there is none, and take()
  // is to be called from time to time.
  [[nodiscard]] virtual int descriptor() const { return -1; }
  // Discards the items that were left for a lost rank.
  virtual void forget(std::uint32_t rank) = 0;
  // Ends this rank's use of the board (the place where launchers leave items for each other). `is_whole`: no
  // rank of the launch was lost.
  virtual void close(bool is_whole) = 0;
};

}  // namespace loch::cluster
