// Implements the control plane (Control) over a channel: collectives ("meetings") without a coordinator,
// messages, and notices of losses and restarts.
#include "common/cluster/channel_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

// A rank's part of a future meeting (a collective such as a barrier) is kept for at most this many meetings
// ahead; this bounds the memory that a faulty rank can fill.
constexpr std::uint64_t meetings_ahead_max = 4096;
constexpr std::size_t held_bytes_max = std::size_t{1} << 30;
constexpr std::size_t waiting_texts_max = 65'536;

std::string describe(const Notice& notice) {
  switch (notice.fate) {
    case Fate::ended:
      return fmt::format("has ended with exit status {}", notice.detail);
    case Fate::killed:
      return fmt::format("was killed by signal {}", notice.detail);
    case Fate::silent:
      return "is silent";
    case Fate::back:
      return "was started again";
  }
  return "is gone";
}

}  // namespace

ChannelControl::ChannelControl(Channel& channel, std::uint32_t rank, std::vector<std::string> hosts,
                               std::uint32_t incarnation, Nanos longest_silence)
    : channel_(channel),
      rank_(rank),
      hosts_(std::move(hosts)),
      longest_silence_(longest_silence),
      lost_(std::make_unique<std::atomic<bool>[]>(hosts_.size())),
      incarnations_(std::make_unique<std::atomic<std::uint32_t>[]>(hosts_.size())),
      fates_(hosts_.size()),
      is_gone_(hosts_.size()) {
  LOCH_CHECK_LT(rank_, hosts_.size());
  incarnations_[rank_] = incarnation;
  control_thread_ = std::thread([this] { control_loop(); });
  channel_.start(*this);
}

ChannelControl::~ChannelControl() {
  channel_.stop();
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  for_handlers_.notify_all();
  control_thread_.join();
}

// ---- Meetings: barriers and collectives, which all ranks call --------------------------------

Result<std::vector<std::string>> ChannelControl::all_gather(std::string_view what, const std::string& mine,
                                                            Nanos within) {
  return meet(Meeting::all_gather, what, mine, within);
}

Result<std::vector<std::string>> ChannelControl::gather(std::string_view what, const std::string& mine,
                                                        Nanos within) {
  return meet(Meeting::gather, what, mine, within);
}

Result<> ChannelControl::barrier(std::string_view what, Nanos within) {
  LOCH_TRY(meet(Meeting::barrier, what, {}, within));
  return {};
}

Result<std::vector<std::string>> ChannelControl::meet(Meeting meeting, std::string_view what,
                                                      const std::string& mine, Nanos within) {
  if (incarnation(rank_) != 0) {
    return fail(ErrorCode::unsupported,
                fmt::format("{}: rank {} was started again and is in no meeting", what, rank_));
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within);
  std::unique_lock lock(mutex_);
  const Part part = {next_meeting_++, meeting, std::string(what.substr(0, what_bytes_max)), mine};
  lock.unlock();
  const std::string bytes = to_bytes(part);
  if (bytes.size() > payload_bytes_max) {
    return fail(ErrorCode::invalid_argument, fmt::format("{}: a text of {} bytes; at most {} may be sent",
                                                         what, mine.size(), payload_bytes_max));
  }
  const bool is_for_root = meeting == Meeting::gather;
  for (std::uint32_t to = 0; to < (is_for_root ? 1 : ranks()); ++to) {
    if (to != rank_ && incarnation(to) == 0) channel_.send(Kind::part, to, bytes);
  }
  lock.lock();
  if (is_for_root && rank_ != 0) {
    forget_until(part.number);
    return {};
  }
  std::vector<std::uint32_t> missing;
  std::optional<Error> wrong;
  arrived_.wait_until(lock, deadline, [&] {
    missing = awaited(part.number);
    wrong = quarrel(part);
    return missing.empty() || wrong;
  });
  std::vector<std::string> texts(hosts_.size());
  texts[rank_] = mine;
  for (auto it = parts_.lower_bound({part.number, 0}); it != parts_.end() && it->first.first == part.number;
       ++it) {
    texts[it->first.second] = it->second.text;
  }
  forget_until(part.number);
  if (wrong) return std::unexpected(std::move(*wrong));
  if (missing.empty()) return texts;
  return fail(ErrorCode::timed_out,
              fmt::format("{}: no word within {} from {}", what, format_duration(within), people(missing)));
}

std::vector<std::uint32_t> ChannelControl::awaited(std::uint64_t number) const {
  std::vector<std::uint32_t> missing;
  for (std::uint32_t rank = 0; rank < hosts_.size(); ++rank) {
    if (rank != rank_ && !fates_[rank] && !parts_.contains({number, rank})) missing.push_back(rank);
  }
  return missing;
}

// Returns an error if another rank is at a different meeting (collective call) under the same number, or has
// ended without coming to this meeting.
std::optional<Error> ChannelControl::quarrel(const Part& mine) const {
  for (std::uint32_t rank = 0; rank < hosts_.size(); ++rank) {
    if (rank == rank_) continue;
    const auto theirs = parts_.find({mine.number, rank});
    if (theirs == parts_.end()) {
      const auto& fate = fates_[rank];
      if (!fate || fate->fate != Fate::ended) continue;
      return Error{ErrorCode::unavailable,
                   fmt::format("{}: {} {} before it came here", mine.what, people({rank}), describe(*fate))};
    }
    const Part& other = theirs->second;
    if (other.meeting == mine.meeting && other.what == mine.what) continue;
    return Error{ErrorCode::internal,
                 fmt::format("meeting {}: {} came to {} \"{}\", {} to {} \"{}\"", mine.number,
                             people({rank_}), name(mine.meeting), mine.what, people({rank}),
                             name(other.meeting), clean_host(other.what))};
  }
  return std::nullopt;
}

std::string ChannelControl::people(const std::vector<std::uint32_t>& who) const {
  std::string out;
  for (const std::uint32_t rank : who) {
    if (!out.empty()) out += ", ";
    out += fmt::format("rank {} ({})", rank, hosts_[rank]);
  }
  return out;
}

void ChannelControl::forget_until(std::uint64_t number) {
  while (!parts_.empty() && parts_.begin()->first.first <= number) {
    held_bytes_ -= parts_.begin()->second.text.size();
    parts_.erase(parts_.begin());
  }
}

// ---- Messages that arrive from other ranks ---------------------------------------------------

void ChannelControl::on_arrival(Kind kind, std::uint32_t from, std::string payload) {
  if (from >= ranks() || from == rank_ || (kind != Kind::part && kind != Kind::text)) {
    ++dropped_;
    return;
  }
  if (kind == Kind::part) {
    keep_part(from, std::move(payload));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (waiting_texts_ >= waiting_texts_max) {
      ++dropped_;
      return;
    }
    push({Event::What::text, from, std::move(payload)});
  }
  for_handlers_.notify_one();
}

void ChannelControl::keep_part(std::uint32_t from, std::string payload) {
  auto part = parse_part(payload);
  const std::lock_guard lock(mutex_);
  // Keep the part (another rank's contribution) only if its meeting (collective call) is still to come or is
  // meeting next_meeting_ - 1, for which a thread may be waiting.
  const bool is_of_now = part && !fates_[from] && part->number + 1 >= next_meeting_ &&
                         part->number < next_meeting_ + meetings_ahead_max &&
                         held_bytes_ + part->text.size() <= held_bytes_max;
  if (!is_of_now || !parts_.emplace(Key{part->number, from}, *part).second) {
    ++dropped_;
    return;
  }
  held_bytes_ += part->text.size();
  arrived_.notify_all();
}

void ChannelControl::on_fate(const Notice& notice) {
  if (notice.rank >= ranks() || notice.rank == rank_) {
    ++dropped_;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (notice.fate == Fate::back) {
      come_back(notice);
    } else if (!is_gone_[notice.rank]) {
      is_gone_[notice.rank] = true;
      if (!fates_[notice.rank]) fates_[notice.rank] = notice;
      if (notice.fate != Fate::ended) {
        lost_[notice.rank].store(true, std::memory_order_relaxed);
        push({Event::What::loss, notice.rank, {}});
      }
    }
  }
  arrived_.notify_all();
  for_handlers_.notify_one();
}

// Records that a rank was restarted; called with mutex_ held. A process that was itself restarted also
// learns of restarts before its own, which cause no event.
void ChannelControl::come_back(const Notice& notice) {
  if (notice.detail <= incarnation(notice.rank)) {
    ++dropped_;
    return;
  }
  incarnations_[notice.rank].store(notice.detail, std::memory_order_relaxed);
  lost_[notice.rank].store(false, std::memory_order_relaxed);
  if (!fates_[notice.rank]) fates_[notice.rank] = Notice{notice.rank, Fate::killed, 0};
  if (is_gone_[notice.rank]) push({Event::What::back, notice.rank, {}});
  is_gone_[notice.rank] = false;
}

// ---- Notices of lost and restarted ranks, and the calls of handlers ---------------------------

bool ChannelControl::is_lost(std::uint32_t rank) const {
  LOCH_CHECK_LT(rank, hosts_.size());
  return lost_[rank].load(std::memory_order_relaxed);
}

std::uint32_t ChannelControl::incarnation(std::uint32_t rank) const {
  LOCH_CHECK_LT(rank, hosts_.size());
  return incarnations_[rank].load(std::memory_order_relaxed);
}

void ChannelControl::send(std::uint32_t to, std::string_view message) {
  LOCH_CHECK_LT(to, hosts_.size());
  LOCH_CHECK_LE(message.size(), payload_bytes_max);
  LOCH_CHECK(to != rank_, "a rank does not send to itself");
  channel_.send(Kind::text, to, std::string(message));
}

void ChannelControl::on_message(std::function<void(std::uint32_t, std::string_view)> handler) {
  between_calls([&] { message_handler_ = std::move(handler); });
}

void ChannelControl::on_lost(std::function<void(std::uint32_t)> handler) {
  between_calls([&] { lost_handler_ = std::move(handler); });
}

void ChannelControl::on_back(std::function<void(std::uint32_t)> handler) {
  between_calls([&] { back_handler_ = std::move(handler); });
}

void ChannelControl::between_calls(const std::function<void()>& change) {
  std::unique_lock calls(calling_, std::defer_lock);
  if (std::this_thread::get_id() != control_thread_.get_id()) calls.lock();
  {
    const std::lock_guard lock(mutex_);
    change();
  }
  for_handlers_.notify_one();
}

void ChannelControl::push(Event event) {
  waiting_texts_ += event.what == Event::What::text ? 1 : 0;
  events_.push_back(std::move(event));
}

std::deque<ChannelControl::Event>::iterator ChannelControl::next_event() {
  return std::ranges::find_if(events_, [&](const Event& event) {
    if (event.what == Event::What::text) return static_cast<bool>(message_handler_);
    return static_cast<bool>(event.what == Event::What::loss ? lost_handler_ : back_handler_);
  });
}

void ChannelControl::control_loop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      for_handlers_.wait(lock, [this] { return is_closing_ || next_event() != events_.end(); });
      if (is_closing_) return;
    }
    const std::lock_guard calls(calling_);
    std::unique_lock lock(mutex_);
    call_handler(lock);
  }
}

void ChannelControl::call_handler(std::unique_lock<std::mutex>& lock) {
  const auto next = next_event();
  if (next == events_.end()) return;  // the event's handler was removed meanwhile
  const Event event = std::move(*next);
  events_.erase(next);
  if (event.what == Event::What::text) {
    --waiting_texts_;
    const auto handler = message_handler_;
    lock.unlock();
    handler(event.rank, event.text);
  } else {
    const auto handler = event.what == Event::What::loss ? lost_handler_ : back_handler_;
    lock.unlock();
    handler(event.rank);
  }
}

}  // namespace loch::cluster
