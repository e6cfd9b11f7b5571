// A bulletin shows to all launcher processes of one launch one text of each of them, and vouches for whose
// it is. It is what tells a launcher where to meet the others (tcp_board.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace loch::cluster {

class Bulletin {
 public:
  virtual ~Bulletin() = default;
  // Shows the text of this rank; to be called once.
  virtual void post(const std::string& text) = 0;
  // Asks for the text of another rank; take() returns it once it is there, with the rank that posted it.
  virtual void expect(std::uint32_t rank) = 0;
  [[nodiscard]] virtual std::optional<std::pair<std::uint32_t, std::string>> take() = 0;
  // The reason why the launch is at an end, such as the loss of the daemon that started this process; empty
  // otherwise.
  [[nodiscard]] virtual std::string failure() = 0;
  // Ends this rank's use. `is_whole`: no rank of the launch was lost.
  virtual void close(bool is_whole) = 0;
};

}  // namespace loch::cluster
