// The launcher process of a rank, without MPI and without a clock: passes messages between its child,
// which does the rank's work, and the launchers of the other ranks; notices who dies and tells the
// others. rank.cc turns it with MPI as the wire; the tests with one in memory.
//
// A child that is killed is announced by its launcher at once. A launcher that is silent for
// `lost_after` is declared lost by whoever notices first, and everybody believes it, the silent one
// too should it still live: it kills its child. So does a rank other than 0 that hears nobody any
// more, for it is the one that is cut off.
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

// Between the launchers of the ranks: whole messages, in order per pair, but for the urgent, which are
// small and do not wait behind large ones. No call waits.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void send(std::uint32_t to, std::string bytes, bool is_urgent) = 0;
  // The next message that has come in, and its sender.
  virtual std::optional<std::pair<std::uint32_t, std::string>> receive() = 0;
  // Sends nothing more to `rank` and expects nothing from it.
  virtual void give_up(std::uint32_t rank) = 0;
};

// The child, seen by its launcher. No call waits.
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
  Nanos heartbeat = 0;   // between two signs of life
  Nanos lost_after = 0;  // of silence
  // One line for people, from the rank whose turn it is to say it.
  std::function<void(const std::string& line)> report;
};

class Switchboard {
 public:
  Switchboard(const SwitchboardConfig& config, Wire& wire, ChildLink& child, Nanos now);

  // What can be done now, up to a bound, so that signs of life are never long in coming. `now` never goes
  // back. Returns whether anything but signs of life came by.
  bool step(Nanos now);
  // Called after the child was reaped, with `fate` ended or killed. Forwards the frames that it had sent
  // first.
  void child_ended(Fate fate, std::uint32_t detail);
  // After child_ended(killed): its work was started again. The new child is welcomed, hears who is gone,
  // and the others hear that it is back.
  void child_returned();
  // Which incarnation of the child this is, from 0.
  [[nodiscard]] std::uint32_t incarnation() const { return incarnation_; }

  // Whether all host names have arrived and were passed to the child.
  [[nodiscard]] bool is_complete() const { return is_welcome_told_; }
  // The ranks whose host name has not arrived yet.
  [[nodiscard]] std::vector<std::uint32_t> unheard_of() const;
  // The work of every rank has ended or is lost: nothing remains to be passed on.
  [[nodiscard]] bool is_over() const;
  // Some launcher is silent: a call of MPI that waits for all would wait for ever.
  [[nodiscard]] bool has_silent() const;
  // This rank was taken for lost by others, or hears nobody; its child was killed.
  [[nodiscard]] bool is_cut_off() const { return is_cut_off_; }
  // Messages that were refused, "2 tag, 1 replay"; empty when none was.
  [[nodiscard]] std::string refused() const;

 private:
  struct Peer {
    std::string host;
    std::optional<Notice> fate;
    Nanos heard = 0;
    bool is_silent = false;
    std::uint32_t incarnation = 0;
    std::uint32_t known_incarnation = 0;  // to this rank's child: what it sends is for that one
  };
  void take(Nanos now, std::uint32_t from, std::string_view bytes);
  void take_fate(const Message& message);
  void settle(const Notice& notice);
  void revive(const Notice& notice);
  void pass_on_childs_frames(std::size_t bytes_max);
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
  std::vector<Peer> peers_;   // by rank; one's own has a host and nothing else
  std::vector<Frame> early_;  // frames for the child that came before its welcome
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
