// Sends messages between launcher processes as items that they leave for each other on a board (board.h), and
// distributes the launch's secret.
#include "common/cluster/board_wire.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/cluster/key_agreement.h"

namespace loch::cluster {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto look_again = std::chrono::milliseconds(1);
constexpr std::size_t length_bytes = sizeof(std::uint64_t);

}  // namespace

BoardWire::BoardWire(std::unique_ptr<Board> board, std::uint32_t rank, std::uint32_t ranks)
    : board_(std::move(board)), rank_(rank), ranks_(ranks), peers_(ranks) {}

// Rank 0 collects the public keys of all other ranks. Returns them indexed by rank.
Result<std::vector<std::string>> BoardWire::collect_keys(Nanos within) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(within);
  std::vector<std::string> keys(ranks_);
  for (std::uint32_t from = 1; from < ranks_; ++from) board_->expect({'k', from, 0, 0});
  for (std::uint32_t left = ranks_ - 1; left > 0;) {
    if (auto item = board_->take()) {
      if (item->first.lane != 'k' || item->first.from >= ranks_) continue;
      keys[item->first.from] = std::move(item->second);
      --left;
      continue;
    }
    if (std::string reason = board_->failure(); !reason.empty())
      return fail(ErrorCode::unavailable, std::move(reason));
    if (Clock::now() > deadline) {
      std::vector<std::uint32_t> missing;
      for (std::uint32_t from = 1; from < ranks_; ++from) {
        if (keys[from].empty()) missing.push_back(from);
      }
      return fail(ErrorCode::timed_out,
                  with_trouble(fmt::format("no word within {} from rank {}", format_duration(within),
                                           fmt::join(missing, ", "))));
    }
    std::this_thread::sleep_for(look_again);
  }
  return keys;
}

// Returns rank 0's public key, and the secret that it has encrypted for this rank.
Result<std::pair<std::string, std::string>> BoardWire::await_secret(Nanos within) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(within);
  std::optional<std::string> key, sealed;
  for (const std::uint64_t number : {0, 1}) board_->expect({'k', 0, rank_, number});
  for (;;) {
    if (auto item = board_->take(); item && item->first.lane == 'k') {
      (item->first.number == 0 ? key : sealed) = std::move(item->second);
      if (key && sealed) return std::pair(std::move(*key), std::move(*sealed));
      continue;
    }
    if (std::string reason = board_->failure(); !reason.empty())
      return fail(ErrorCode::unavailable, std::move(reason));
    if (Clock::now() > deadline) {
      return fail(ErrorCode::timed_out,
                  with_trouble(fmt::format("no word from rank 0 within {}", format_duration(within))));
    }
    std::this_thread::sleep_for(look_again);
  }
}

std::string BoardWire::with_trouble(std::string text) {
  const std::string trouble = board_->trouble();
  return trouble.empty() ? text : fmt::format("{} ({})", text, trouble);
}

// Rank 0 answers when it has the keys of all ranks, so that all ranks begin to expect heartbeats at about the
// same time.
Result<Secret> BoardWire::share_secret(Nanos within) {
  LOCH_ASSIGN(const KeyAgreement own, KeyAgreement::draw());
  Secret secret{};
  if (rank_ == 0) {
    LOCH_ASSIGN(secret, draw_secret());
    for (std::uint32_t to = 1; to < ranks_; ++to) board_->post({'k', 0, to, 0}, own.public_key());
    LOCH_ASSIGN(const std::vector<std::string> keys, collect_keys(within));
    const std::string_view plain(reinterpret_cast<const char*>(secret.data()), secret.size());
    for (std::uint32_t to = 1; to < ranks_; ++to) {
      LOCH_ASSIGN(const std::string sealed, own.seal(keys[to], plain));
      board_->post({'k', 0, to, 1}, sealed);
    }
  } else {
    board_->post({'k', rank_, 0, 0}, own.public_key());
    LOCH_ASSIGN(const auto from_zero, await_secret(within));
    LOCH_ASSIGN(const std::string plain, own.open(from_zero.first, from_zero.second));
    if (plain.size() != secret.size()) return fail(ErrorCode::corrupt, "rank 0 sent no secret");
    std::ranges::copy(plain, secret.begin());
  }
  begin();
  return secret;
}

void BoardWire::begin() {
  for (std::uint32_t from = 0; from < ranks_; ++from) {
    if (from == rank_) continue;
    for (const char lane : {'m', 'u'}) board_->expect({lane, from, rank_, 0});
  }
}

void BoardWire::send(std::uint32_t to, std::string bytes, bool is_urgent) {
  Peer& peer = peers_[to];
  if (peer.is_given_up) return;
  Lane& lane = lane_of(peer, is_urgent ? 'u' : 'm');
  const std::uint64_t length = bytes.size();
  lane.out.append(reinterpret_cast<const char*>(&length), sizeof length).append(bytes);
}

bool BoardWire::push() {
  bool is_done = true;
  for (std::uint32_t to = 0; to < ranks_; ++to) {
    if (to == rank_ || peers_[to].is_given_up) continue;
    is_done &= push_lane(to, 'u', peers_[to].urgent);
    is_done &= push_lane(to, 'm', peers_[to].messages);
  }
  return is_done;
}

bool BoardWire::push_lane(std::uint32_t to, char name, Lane& lane) {
  const Slot next{name, rank_, to, lane.posted};
  if (!board_->is_settled(next)) return false;
  if (lane.out.empty()) return true;
  board_->post(next, lane.out.substr(lane.out_at, item_bytes_max));
  ++lane.posted;
  lane.out_at = std::min(lane.out.size(), lane.out_at + item_bytes_max);
  if (lane.out_at == lane.out.size()) {
    lane.out.clear();
    lane.out_at = 0;
  }
  return false;
}

std::optional<std::pair<std::uint32_t, std::string>> BoardWire::receive() {
  while (arrived_.empty()) {
    auto item = board_->take();
    if (!item) return std::nullopt;
    const Slot slot = item->first;
    if (slot.lane == 'k' || slot.from >= ranks_ || peers_[slot.from].is_given_up) continue;
    Lane& lane = lane_of(peers_[slot.from], slot.lane);
    board_->expect({slot.lane, slot.from, rank_, ++lane.taken});
    unpack(slot.from, lane, item->second);
  }
  auto first = std::move(arrived_.front());
  arrived_.pop_front();
  return first;
}

void BoardWire::unpack(std::uint32_t from, Lane& lane, const std::string& item) {
  const std::size_t skipped = std::min(lane.skipped_left, item.size());
  lane.skipped_left -= skipped;
  lane.in.append(item, skipped);
  std::size_t at = 0;
  while (lane.in.size() - at >= length_bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, lane.in.data() + at, sizeof length);
    const std::size_t there = lane.in.size() - at - length_bytes;
    if (length > message_bytes_max) {
      // A message that is too large is passed on as an empty one, which Opener::open() refuses and counts.
      arrived_.emplace_back(from, std::string());
      const std::size_t dropped = std::min<std::uint64_t>(length, there);
      lane.skipped_left = length - dropped;
      at += length_bytes + dropped;
      continue;
    }
    if (there < length) break;
    arrived_.emplace_back(from, lane.in.substr(at + length_bytes, length));
    at += length_bytes + length;
  }
  lane.in.erase(0, at);
}

void BoardWire::give_up(std::uint32_t rank) {
  Peer& peer = peers_[rank];
  peer.is_given_up = true;
  peer.messages = peer.urgent = {};
  std::erase_if(arrived_, [&](const auto& message) { return message.first == rank; });
  board_->forget(rank);
}

void BoardWire::flush(Nanos within) {
  const auto deadline = Clock::now() + std::chrono::nanoseconds(within);
  while (!push() && board_->failure().empty() && Clock::now() < deadline)
    std::this_thread::sleep_for(look_again);
}

}  // namespace loch::cluster
