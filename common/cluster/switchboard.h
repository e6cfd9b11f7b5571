// The logic of a rank's launcher process, without PMIx and without a clock: forwards messages between its
// child process, which does the rank's work, and the launchers of the other ranks; detects deaths and tells
// the others. rank.cc runs it with a board (board.h) as the wire, the tests with a wire in memory.
//
// If a child is killed, its launcher announces it at once. A launcher that is silent for `lost_after` is
// declared lost by the first rank that notices, and all ranks accept that. If the silent launcher is
// still alive and learns of it, it kills its child. A rank other than 0 that receives nothing from any
// other rank considers itself cut off and kills its child as well.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/units.h"
#include "common/cluster/frame.h"
#include "common/cluster/message.h"

namespace loch::cluster {

// Transport between the launchers of the ranks: whole messages, in order per pair of ranks, except that
// urgent messages, which are small, may overtake others. No call blocks.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void send(std::uint32_t to, std::string bytes, bool is_urgent) = 0;
  // Returns the next message that has arrived, with its sender; none if there is none.
  virtual std::optional<std::pair<std::uint32_t, std::string>> receive() = 0;
  // Stops sending to `rank` and receiving from it.
  virtual void give_up(std::uint32_t rank) = 0;
};

// The launcher's connection to its child process. No call blocks.
class ChildLink {
 public:
  virtual ~ChildLink() = default;
  virtual void tell(const Frame& frame) = 0;
  virtual std::optional<Frame> hear() = 0;
  virtual void kill() = 0;
};

struct SwitchboardConfig {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::string host;
  Secret secret{};
  Nanos heartbeat = 0;   // ns between two heartbeats
  Nanos lost_after = 0;  // silence in ns after which a rank counts as lost
  // Prints one line for the user; only one rank calls it for each loss.
  std::function<void(const std::string& line)> report;
};

class Switchboard {
 public:
  Switchboard(const SwitchboardConfig& config, Wire& wire, ChildLink& child, Nanos now);

  // Forwards pending messages, up to a bound so that heartbeats are not delayed, and checks for silent
  // ranks. `now` must not decrease. Returns whether there was any message other than heartbeats.
  bool step(Nanos now);
  // To be called after the child was reaped, with `fate` ended or killed. First forwards the frames that
  // the child had sent, then announces its fate to the other ranks.
  void child_ended(Fate fate, std::uint32_t detail);
  // To be called after child_ended(killed) when the child was restarted. Sends the new child the host
  // names and the fates of other ranks, and announces its return to the other ranks.
  void child_returned();
  // Number of the child's incarnation, from 0.
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }

  // Whether the host names of all ranks have arrived and were sent to the child.
  [[nodiscard]] bool is_complete() const { return is_welcome_told_; }
  // The ranks whose host name has not arrived yet.
  [[nodiscard]] std::vector<std::uint32_t> unheard_of() const;
  // Whether the work of every rank has ended or is lost, so that no message remains to be forwarded.
  [[nodiscard]] bool is_over() const;
  // Whether the launcher of any rank is silent; PMIx_Finalize may then wait for it.
  [[nodiscard]] bool has_silent() const;
  // Whether this launcher is cut off: another rank declared this rank lost, or all other ranks have been
  // silent for `lost_after`. The child was killed then, unless it had ended before.
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_; }
  // Formats the number of refused messages by reason, such as "2 tag, 1 replay"; empty if there were
  // none.
  [[nodiscard]] std::string refused() const;

 private:
  struct Peer {
    std::string host;
    std::optional<Notice> fate;
    Nanos heard = 0;
    bool is_silent = false;
    std::uint32_t incarnation = 0;
    // the incarnation of this peer to which this rank's child sends messages
    std::uint32_t known_incarnation = 0;
  };
  void take(Nanos now, std::uint32_t from, std::string_view bytes);
  void take_fate(const Message& message);
  void settle(const Notice& notice);
  void revive(const Notice& notice);
  void pass_on_childs_frames(std::size_t bytes_max);
  void excuse_others(Nanos now);
  void listen_for_silence(Nanos now);
  void cut_off(const std::string& why);
  void welcome_when_complete();
  void tell_child(Frame frame);
  void tell_others(Kind kind, const std::string& payload);
  void send(Kind kind, std::uint32_t to, std::string payload);
  [[nodiscard]] bool is_speaker() const;

  const SwitchboardConfig config_;
  Wire& wire_;
  ChildLink& child_;
  Sealer sealer_;
  Opener opener_;
  std::vector<Peer> peers_;  // by rank; the entry of this rank itself has only a host name
  // frames to be sent to the child after the welcome frame, which has the host names
  std::vector<Frame> early_;
  Nanos next_beat_;
  Nanos last_step_;
  std::uint64_t malformed_ = 0;
  std::uint32_t incarnation_ = 0;
  bool has_child_ended_ = false;
  bool is_welcome_told_ = false;
  bool is_cut_off_ = false;
  bool was_busy_ = false;
};

}  // namespace loch::cluster
