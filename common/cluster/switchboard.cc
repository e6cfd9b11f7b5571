// Decides what a rank's launcher process does with each message, silence and death: a state machine that
// calls neither PMIx nor a clock.
#include "common/cluster/switchboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

constexpr std::size_t early_frames_max = 65'536;
// Most bytes of messages that one step() forwards in each direction. Each message counts message_overhead
// bytes more than its length, so that empty messages count too.
constexpr std::size_t step_bytes_max = std::size_t{1} << 20;
constexpr std::size_t message_overhead = 1024;

FrameKind frame_of(Fate fate) {
  if (fate == Fate::back) return FrameKind::back;
  return fate == Fate::ended ? FrameKind::left : FrameKind::lost;
}

// Whether a message of this kind may say that its sender has this fate (ended, killed, restarted).
bool is_said_in(Kind kind, Fate fate) {
  return (kind == Kind::left && fate == Fate::ended) || (kind == Kind::lost && fate == Fate::killed) ||
         (kind == Kind::back && fate == Fate::back);
}

}  // namespace

Switchboard::Switchboard(const SwitchboardConfig& config, Wire& wire, ChildLink& child, Nanos now)
    : config_(config),
      wire_(wire),
      child_(child),
      sealer_(config.secret, config.ranks),
      opener_(config.secret, config.rank, config.ranks),
      peers_(config.ranks),
      next_beat_(now),
      last_step_(now) {
  LOCH_CHECK_LT(config.rank, config.ranks);
  LOCH_CHECK_GT(config.heartbeat, 0);
  LOCH_CHECK_GT(config.lost_after, config.heartbeat);
  for (Peer& peer : peers_) peer.heard = now;
  peers_[config.rank].host = clean_host(config.host);
  tell_others(Kind::hello, peers_[config.rank].host);
}

bool Switchboard::step(Nanos now) {
  was_busy_ = false;
  excuse_others(now);
  for (std::size_t bytes = 0; bytes < step_bytes_max;) {
    const auto received = wire_.receive();
    if (!received) break;
    bytes += received->second.size() + message_overhead;
    take(now, received->first, received->second);
  }
  pass_on_childs_frames(step_bytes_max);
  welcome_when_complete();
  if (now >= next_beat_) {
    next_beat_ = now + config_.heartbeat;
    tell_others(Kind::heartbeat, {});
  }
  listen_for_silence(now);
  return was_busy_;
}

void Switchboard::child_ended(Fate fate, std::uint32_t detail) {
  pass_on_childs_frames(std::numeric_limits<std::size_t>::max());
  has_child_ended_ = true;
  const Notice notice = {config_.rank, fate, detail};
  tell_others(fate == Fate::ended ? Kind::left : Kind::lost, to_bytes(notice));
}

void Switchboard::child_returned() {
  LOCH_CHECK(has_child_ended_, "a child is started again once it has ended");
  has_child_ended_ = is_welcome_told_ = false;
  early_.clear();
  ++incarnation_;
  for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) {
    Peer& peer = peers_[rank];
    peer.known_incarnation = peer.incarnation;
    if (peer.incarnation > 0)
      early_.push_back({FrameKind::back, rank, to_bytes(Notice{rank, Fate::back, peer.incarnation})});
    if (peer.fate) early_.push_back({frame_of(peer.fate->fate), rank, to_bytes(*peer.fate)});
  }
  tell_others(Kind::back, to_bytes(Notice{config_.rank, Fate::back, incarnation_}));
}

// ---- Messages that arrive from other launchers -----------------------------------------------

void Switchboard::take(Nanos now, std::uint32_t from, std::string_view bytes) {
  auto message = opener_.open(bytes, from);
  if (!message) return;
  Peer& peer = peers_[from];
  if (peer.is_silent) return;  // a rank declared lost for its silence stays lost
  peer.heard = now;
  was_busy_ |= message->kind != Kind::heartbeat;
  switch (message->kind) {
    case Kind::hello:
      peer.host = clean_host(message->payload);
      break;
    case Kind::heartbeat:
      break;
    case Kind::part:
    case Kind::text:
      // The message was meant for an incarnation of the child that was killed before the message arrived.
      if (message->incarnation != incarnation_) break;
      tell_child({message->kind == Kind::part ? FrameKind::part : FrameKind::text, from,
                  std::move(message->payload)});
      break;
    case Kind::lost:
    case Kind::left:
    case Kind::back:
      take_fate(*message);
      break;
  }
}

// Handles a notice that a rank has ended, was killed, is back, or is silent. A rank reports the first three
// of itself; that it is silent (no message of it has come for long) is reported by another rank.
void Switchboard::take_fate(const Message& message) {
  const auto notice = parse_notice(message.payload, config_.ranks);
  const bool is_of_sender = notice && notice->rank == message.from && is_said_in(message.kind, notice->fate);
  const bool is_of_silent =
      notice && notice->rank != message.from && notice->fate == Fate::silent && message.kind == Kind::lost;
  if (!is_of_sender && !is_of_silent) {
    ++malformed_;
  } else if (notice->rank == config_.rank) {
    cut_off(fmt::format("rank {} ({}) has taken it for lost", message.from, peers_[message.from].host));
  } else if (notice->fate == Fate::back) {
    revive(*notice);
  } else {
    settle(*notice);
  }
}

void Switchboard::revive(const Notice& notice) {
  Peer& peer = peers_[notice.rank];
  if (!peer.fate || peer.fate->fate != Fate::killed || notice.detail != peer.incarnation + 1) {
    ++malformed_;
    return;
  }
  peer.fate.reset();
  peer.incarnation = notice.detail;
  tell_child({FrameKind::back, notice.rank, to_bytes(notice)});
}

// Records the end or loss of another rank; only its first fate counts.
void Switchboard::settle(const Notice& notice) {
  Peer& peer = peers_[notice.rank];
  if (notice.fate == Fate::silent && !peer.is_silent) {
    peer.is_silent = true;
    wire_.give_up(notice.rank);
  }
  if (peer.fate) return;
  peer.fate = notice;
  if (notice.fate == Fate::silent && is_speaker() && config_.report) {
    config_.report(fmt::format("node {} ({}) is lost: nothing was heard of it for {}", notice.rank,
                               peer.host.empty() ? "?" : peer.host, format_duration(config_.lost_after)));
  }
  tell_child({frame_of(notice.fate), notice.rank, to_bytes(notice)});
}

// ---- Messages that this launcher sends to its child and to other launchers -------------------

void Switchboard::pass_on_childs_frames(std::size_t bytes_max) {
  for (std::size_t bytes = 0; bytes < bytes_max;) {
    auto frame = child_.hear();
    if (!frame) break;
    bytes += frame->payload.size() + message_overhead;
    was_busy_ = true;
    const bool is_of_peer = frame->rank < config_.ranks && frame->rank != config_.rank;
    if (is_of_peer && frame->kind == FrameKind::back) {
      const auto notice = parse_notice(frame->payload, config_.ranks);
      if (notice && notice->detail <= peers_[frame->rank].incarnation)
        peers_[frame->rank].known_incarnation = notice->detail;
      continue;
    }
    if (!is_of_peer || (frame->kind != FrameKind::part && frame->kind != FrameKind::text)) {
      ++malformed_;
      continue;
    }
    // Drop the message if the receiver's work is over, or if it was meant for a former incarnation of the
    // receiver.
    const Peer& peer = peers_[frame->rank];
    if (peer.fate || peer.known_incarnation != peer.incarnation) continue;
    send(frame->kind == FrameKind::part ? Kind::part : Kind::text, frame->rank, std::move(frame->payload));
  }
}

void Switchboard::welcome_when_complete() {
  if (is_welcome_told_ || has_child_ended_) return;
  for (const Peer& peer : peers_) {
    if (peer.host.empty() && !peer.fate) return;
  }
  is_welcome_told_ = true;
  std::vector<std::string> hosts;
  for (const Peer& peer : peers_) hosts.push_back(peer.host.empty() ? "?" : peer.host);
  child_.tell({FrameKind::welcome, config_.rank, to_bytes(hosts)});
  for (const Frame& frame : early_) child_.tell(frame);
  early_.clear();
}

// Sends a frame to the child. Before the child has its welcome (the host names of all ranks), the frame
// is queued: other ranks may have all host names earlier and begin to send.
void Switchboard::tell_child(Frame frame) {
  if (has_child_ended_) return;
  if (is_welcome_told_) {
    child_.tell(frame);
  } else if (early_.size() < early_frames_max) {
    early_.push_back(std::move(frame));
  } else {
    ++malformed_;
  }
}

void Switchboard::tell_others(Kind kind, const std::string& payload) {
  for (std::uint32_t to = 0; to < config_.ranks; ++to) send(kind, to, payload);
}

void Switchboard::send(Kind kind, std::uint32_t to, std::string payload) {
  if (to == config_.rank || peers_[to].is_silent) return;
  const std::uint32_t incarnation = kind == Kind::part || kind == Kind::text ? peers_[to].incarnation : 0;
  wire_.send(to, sealer_.seal({kind, config_.rank, to, std::move(payload), incarnation}),
             kind == Kind::heartbeat);
}

// ---- Ranks that have been silent for too long ------------------------------------------------

// Keeps time from counting as the other ranks' silence in which this process could not have heard them,
// because it was stopped itself.
void Switchboard::excuse_others(Nanos now) {
  const Nanos span = now - std::exchange(last_step_, now);
  if (span <= config_.lost_after / 2) return;
  for (Peer& peer : peers_) peer.heard = now;
}

void Switchboard::listen_for_silence(Nanos now) {
  for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) {
    Peer& peer = peers_[rank];
    if (rank == config_.rank || peer.is_silent || now - peer.heard <= config_.lost_after) continue;
    const Notice notice = {rank, Fate::silent, 0};
    // Also tell the silent rank, which may still be able to receive.
    if (!peer.fate) tell_others(Kind::lost, to_bytes(notice));
    settle(notice);
  }
  const auto is_gone = [&](const Peer& peer) {
    return &peer == &peers_[config_.rank] || (peer.fate && peer.fate->fate == Fate::silent);
  };
  if (config_.rank != 0 && config_.ranks > 1 && std::ranges::all_of(peers_, is_gone))
    cut_off("it hears nobody any more");
}

void Switchboard::cut_off(const std::string& why) {
  if (is_cut_off_) return;
  is_cut_off_ = true;
  if (has_child_ended_) return;
  if (config_.report) {
    config_.report(fmt::format("node {} ({}) ends: {}", config_.rank, peers_[config_.rank].host, why));
  }
  child_.kill();
}

// Whether all lower ranks are silent: of the ranks that are still heard, only the lowest prints which ranks
// are lost.
bool Switchboard::is_speaker() const {
  for (std::uint32_t rank = 0; rank < config_.rank; ++rank) {
    if (!peers_[rank].is_silent) return false;
  }
  return true;
}

// ---- What this launcher knows of the state of the launch --------------------------------------

std::vector<std::uint32_t> Switchboard::unheard_of() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) {
    if (peers_[rank].host.empty() && !peers_[rank].fate) out.push_back(rank);
  }
  return out;
}

bool Switchboard::is_over() const {
  if (!has_child_ended_) return false;
  if (is_cut_off_) return true;
  for (std::uint32_t rank = 0; rank < config_.ranks; ++rank) {
    if (rank != config_.rank && !peers_[rank].fate) return false;
  }
  return true;
}

bool Switchboard::has_silent() const {
  return is_cut_off_ || std::ranges::any_of(peers_, [](const Peer& peer) { return peer.is_silent; });
}

std::string Switchboard::refused() const {
  std::string out;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, what);
  };
  for (std::size_t i = 0; i < refusals; ++i) add(opener_.refused()[i], name(static_cast<Refusal>(i)));
  add(malformed_, "malformed");
  return out;
}

}  // namespace loch::cluster
