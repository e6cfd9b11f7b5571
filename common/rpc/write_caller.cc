// Sends a client's request by WRITE, waits for the reply, and repeats the request if none comes.
#include "common/rpc/write_caller.h"

#include <algorithm>
#include <cstring>

#include "common/base/probe.h"
#include "common/fabric/copy_out.h"
#include "common/fabric/memory.h"

namespace loch::rpc {
namespace {

// ns between two checks of a frame (message in a slot) whose last word arrived before its body
constexpr Nanos look_again_after = 100;

// A worker's clock may be negative, but not below minus this many ns.
constexpr Nanos behind_zero = Nanos{1} << 40;

}  // namespace

std::uint64_t first_number_of_an_incarnation(Nanos now, std::uint64_t within_turn) {
  constexpr std::uint64_t turn = 0x10000, microsecond = 1'000;
  const auto clock = static_cast<std::uint64_t>(behind_zero + now);
  return within_turn == 0 ? clock : (clock / microsecond + 1) * turn + within_turn;
}

WriteCaller::WriteCaller(const WriteChannel& channel, fabric::Worker& worker, std::uint32_t lane)
    : channel_(channel),
      config_(channel.config()),
      worker_(worker),
      node_(channel.local(worker.node())),
      lane_(lane),
      arrival_(channel.arrival(worker)),
      peers_(channel.peers()),
      incarnations_(channel.peers().size()),
      is_simulated_(worker.capabilities().simulated) {
  const Nanos began = config_.flaws.numbers_from_zero ? -behind_zero : worker.now();
  const std::uint64_t first = first_number_of_an_incarnation(began, config_.first_number);
  for (std::uint32_t i = 0; i < config_.parties.rows(); ++i) {
    const std::uint32_t servers = config_.parties.servers;
    rows_.push_back(row_of({static_cast<fabric::NodeId>(i / servers), i % servers}));
    rows_.back().sequence = first;
  }
  if (!node_.is_restarted || config_.flaws.takes_nothing_over) return;
  for (std::uint32_t i = 0; i < rows_.size(); ++i)
    rows_[i].is_former =
        // a request slot at a server of another node may hold a request of the former incarnation; the
        // request slots at servers of this node were zeroed when the node restarted
        i / config_.parties.servers != worker_.node();
}

std::uint32_t WriteCaller::row_number(ServerId server) const {
  return config_.parties.row(server.node, server.index);
}

// The client prepares a request in the server's request slot itself if the server is on this node, else in
// the slot from which it is WRITEn there.
WriteCaller::Row WriteCaller::row_of(ServerId server) const {
  const std::uint32_t number = row_number(server), column = config_.parties.column(worker_.node(), lane_);
  Row row;
  row.remote_end = channel_.request_grid().message(server.index, column, 0);
  row.reply_end = channel_.reply_grid().message(number, lane_, 0);
  row.requests = is_local(server) ? node_.requests : node_.staged_requests;
  row.request_end =
      is_local(server) ? row.remote_end : channel_.staged_request_grid().message(number, lane_, 0);
  return row;
}

fabric::LocalSlice WriteCaller::body(ServerId server, std::uint8_t code) {
  return frame(rows_[row_number(server)], code);
}

coro::Task<bool> WriteCaller::prepare(ServerId server) {
  Row& row = rows_[row_number(server)];
  if (row.is_former) {
    if (!row.is_unanswered) number(&row, take_over_code);
    const WriteReply taken_over = co_await exchange(server, &row, nullptr, false, nothing_tried());
    row.is_former = taken_over.outcome != WriteReply::Outcome::answered || taken_over.code != take_over_code;
    if (!row.is_former) {
      LOCH_PROBE("rpc.write.slot-taken-over");
      co_return true;
    }
    ++counts_.unsent;
    co_return false;
  }
  if (!row.is_unanswered || config_.flaws.rewrites_unanswered) co_return true;
  LOCH_PROBE("rpc.write.slot-unanswered");
  const WriteReply late = co_await exchange(server, &row, nullptr, false, nothing_tried());
  static_cast<void>(late);
  if (!row.is_unanswered) co_return true;
  LOCH_PROBE("rpc.write.slot-still-unanswered");
  ++counts_.unsent;
  co_return false;
}

void WriteCaller::number(Row* row, std::uint8_t code) {
  ++row->sequence;
  if (static_cast<std::uint16_t>(row->sequence) == 0) {  // 0 is the sequence of an unused slot
    LOCH_PROBE("rpc.write.number-wrapped");
    ++row->sequence;
  }
  row->attempt = 0;
  row->code = code;
  row->was_sent = false;
  fabric::store_word_release(row->requests->at(row->request_end - request_tail_bytes), row->sequence);
}

coro::Task<WriteReply> WriteCaller::call(ServerId server, std::uint8_t code, fabric::OpStats* stats) {
  Row& row = rows_[row_number(server)];
  number(&row, code);
  return exchange(server, &row, stats, true, nothing_tried());
}

coro::Task<WriteReply> WriteCaller::settle(ServerId server, Tried tried, fabric::OpStats* stats) {
  return exchange(server, &rows_[row_number(server)], stats, true, tried);
}

WriteCaller::Tried WriteCaller::nothing_tried() const {
  return {.give_up = worker_.now() + config_.give_up_after};
}

WriteCaller::Tried WriteCaller::FirstTry::await_resume() {
  Tried tried{.give_up = began_ + caller_.config_.give_up_after};
  if (!is_sent_) return tried;
  tried.was_stopping = was_stopping_;
  tried.seen = watch_->await_resume();
  const bool is_charged = !caller_.is_local(server_) && caller_.is_check_charged();
  if (*tried.seen != fabric::WatchOutcome::ready || is_charged) return tried;
  const std::uint64_t word = caller_.reply_word(row_);
  if (caller_.is_reply_whole(server_, row_, word)) [[likely]]
    tried.reply = caller_.answer(server_, &row_, word, stats_);
  return tried;
}

// Sends the request that `row` holds for the server, and sends it again whenever no reply has come in time,
// until the reply arrives or the time to give up has come.
coro::Task<WriteReply> WriteCaller::exchange(ServerId server, Row* row, fabric::OpStats* stats, bool counts,
                                             Tried tried) {
  const Nanos give_up = tried.give_up;
  const std::uint32_t attempt_before = row->attempt;
  WriteReply::Outcome outcome = WriteReply::Outcome::timed_out;
  for (bool is_first = tried.seen.has_value() || !row->was_sent;; is_first = false) {
    if (!is_first) {
      LOCH_PROBE("rpc.write.sent-again");
      ++row->attempt;
      ++counts_.retries;
    }
    const bool was_tried = is_first && tried.seen.has_value();
    bool sent = was_tried || (is_first && sends_at_once(server, row, stats));
    if (!sent) {
      const bool was_sent = co_await send(server, row, stats);
      sent = was_sent;
    }
    if (was_tried ? tried.was_stopping : worker_.stopping()) outcome = WriteReply::Outcome::stopping;
    if (sent) {
      const Nanos patience = std::min(give_up, worker_.now() + config_.retry_after);
      fabric::WatchOutcome seen = fabric::WatchOutcome::ready;
      if (was_tried) {
        seen = *tried.seen;
      } else {
        const fabric::WatchOutcome watched = co_await worker_.watch(awaited(server, *row), patience);
        seen = watched;
      }
      const bool is_here = seen == fabric::WatchOutcome::ready;
      const bool is_charged = !is_local(server) && is_check_charged();
      if (is_here && (is_charged || !is_reply_whole(server, *row, reply_word(*row)))) {
        const fabric::WatchOutcome later = co_await await_whole(server, row, patience);
        seen = later;
      }
      if (seen == fabric::WatchOutcome::ready) {
        WriteReply reply = answer(server, row, reply_word(*row), stats);
        reply.attempts = row->attempt - attempt_before;
        co_return reply;
      }
      if (seen == fabric::WatchOutcome::stopping) outcome = WriteReply::Outcome::stopping;
    }
    const bool is_over = worker_.now() >= give_up || outcome == WriteReply::Outcome::stopping;
    // The request could not be sent because an attempt to reconnect has failed, or because the server's node
    // has restarted.
    if (is_over || !sent) break;
  }
  WriteReply reply;
  reply.outcome = row->was_sent ? outcome : WriteReply::Outcome::unsent;
  reply.attempts = row->attempt - attempt_before;
  row->is_unanswered = row->was_sent && !is_orphaned(server, *row);
  if (!counts) co_return reply;
  if (reply.outcome == WriteReply::Outcome::timed_out) {
    LOCH_PROBE("rpc.write.timed-out");
    ++counts_.timeouts;
  }
  if (reply.outcome == WriteReply::Outcome::unsent) {
    LOCH_PROBE("rpc.write.unsent");
    ++counts_.unsent;
  }
  co_return reply;
}

fabric::WorkRequest WriteCaller::write_of(ServerId server, const Row& row, fabric::OpStats* stats) const {
  const std::uint32_t bytes = config_.request_bytes[row.code];
  fabric::WorkRequest write = write_request(config_, worker_, peers_[server.node].requests,
                                            row.remote_end - bytes, frame(row, row.code), bytes);
  write.stats = stats;
  return write;
}

// Posts the WRITE of a request without awaiting its completion: the reply says that the server has read the
// whole request, and the request's buffer is not changed before the reply.
void WriteCaller::post(ServerId server, Row* row, const fabric::WorkRequest& write) {
  row->was_sent = true;
  row->incarnation = incarnations_[server.node];
  worker_.post_detached(write);
}

bool WriteCaller::sends_at_once(ServerId server, Row* row, fabric::OpStats* stats) {
  const bool here = is_local(server);
  const std::uint32_t bytes = config_.request_bytes[row->code];
  if (!here && (is_check_charged() || !is_reached(server.node))) return false;
  const fabric::LocalSlice request = frame(*row, row->code);
  const std::uint64_t word_at = request.offset + bytes - trailer_bytes;
  const Trailer trailer = seal(*request.region, request.offset, bytes,
                               static_cast<std::uint16_t>(row->sequence), row->code, arrival_from(server));
  if (here) {
    row->was_sent = true;
    worker_.store_word(*request.region, word_at, trailer.pack());
  } else {
    fabric::store_word_release(request.region->at(word_at), trailer.pack());
    post(server, row, write_of(server, *row, stats));
  }
  return true;
}

// Sends once the request that `row` holds for the server. Returns false if the server's node cannot be
// reached, or has restarted since the request was first sent.
coro::Task<bool> WriteCaller::send(ServerId server, Row* row, fabric::OpStats* stats) {
  const fabric::LocalSlice request = frame(*row, row->code);
  const std::uint32_t bytes = config_.request_bytes[row->code];
  const std::uint64_t word_at = request.offset + bytes - trailer_bytes;
  Trailer trailer = seal(*request.region, request.offset, bytes, static_cast<std::uint16_t>(row->sequence),
                         row->code, arrival_from(server));
  trailer.attempt = config_.flaws.repeats_word ? 0 : static_cast<std::uint8_t>(row->attempt & 15);
  if (is_local(server)) {
    row->was_sent = true;
    worker_.store_word(*request.region, word_at, trailer.pack());
    co_return true;
  }
  if (arrival_ == Arrival::by_check) co_await worker_.compute(worker_.costs().hash(bytes));
  const bool is_again = row->was_sent;
  const bool is_rc = config_.transport == fabric::Transport::rc;
  if (!is_reached(server.node)) {
    const bool is_back = co_await reconnect(server.node);
    if (!is_back) co_return false;
  }
  if (is_orphaned(server, *row)) {
    LOCH_PROBE("rpc.write.server-reborn");
    co_return false;
  }
  fabric::store_word_release(request.region->at(word_at), trailer.pack());
  const fabric::WorkRequest write = write_of(server, *row, stats);
  if (!is_again) {
    post(server, row, write);
    co_return true;
  }
  row->incarnation = incarnations_[server.node];
  // The completion of a repeated WRITE is awaited: the reply may be to the first WRITE, and then does not
  // show that the NIC has read the buffer for the second.
  const fabric::Completion done = co_await worker_.execute(write);
  if (done.ok() || !is_rc) co_return true;
  const bool is_back = co_await reconnect(server.node);
  co_return is_back && !is_orphaned(server, *row);
}

bool WriteCaller::is_reply_whole(ServerId server, const Row& row, std::uint64_t word) {
  is_kept_ = false;
  const Trailer trailer = Trailer::unpack(word);
  const std::uint32_t bytes = config_.reply_bytes[trailer.code];
  if (bytes == 0) return false;
  const fabric::Region& replies = *node_.replies;
  const Arrival by = arrival_from(server);
  const std::uint32_t body = bytes - trailer_bytes;
  if (by == Arrival::by_trailer || body > most_kept_body || replies.elision().on())
    return is_whole(replies, row.reply_end - bytes, bytes, word, by, turns(row));
  if (copied_.size() < bytes) copied_.resize(bytes);
  fabric::copy_out(copied_.data(), replies.at(row.reply_end - bytes), body);
  is_kept_ = trailer.code != 0 &&
             body_check(copied_.data(), body, trailer.sequence, trailer.code, turns(row)) == trailer.check;
  return is_kept_;
}

coro::Task<fabric::WatchOutcome> WriteCaller::await_whole(ServerId server, Row* row, Nanos deadline) {
  for (;;) {
    const std::uint64_t word = reply_word(*row);
    if (arrival_from(server) == Arrival::by_check)
      co_await worker_.compute(worker_.costs().hash(config_.reply_bytes[Trailer::unpack(word).code]));
    if (is_reply_whole(server, *row, word)) co_return fabric::WatchOutcome::ready;
    LOCH_PROBE("rpc.value.reply-in-part");
    ++counts_.late_frames;
    if (worker_.now() >= deadline) co_return fabric::WatchOutcome::timed_out;
    co_await worker_.spin_until(worker_.now() + look_again_after);
    if (worker_.stopping()) co_return fabric::WatchOutcome::stopping;
    const fabric::WatchOutcome seen = co_await worker_.watch(awaited(server, *row), deadline);
    if (seen != fabric::WatchOutcome::ready) co_return seen;
  }
}

WriteReply WriteCaller::answer(ServerId server, Row* row, std::uint64_t word, fabric::OpStats* stats) {
  row->is_unanswered = false;
  WriteReply reply;
  reply.code = Trailer::unpack(word).code;
  const std::uint32_t bytes = config_.reply_bytes[reply.code];
  if (is_kept_) {
    std::memcpy(copied_.data() + bytes - trailer_bytes, &word, trailer_bytes);
    reply.frame = copied_.data();
  } else {
    reply.frame = frame_of({node_.replies, row->reply_end - bytes}, bytes,
                           row->attempt > 0 || (arrival_ == Arrival::by_check && !is_local(server)));
  }
  if (is_local(server)) {
    if (stats != nullptr) ++stats->local_accesses;
    return reply;
  }
  fabric::WorkRequest arrived;
  arrived.verb = fabric::Verb::write;
  arrived.transport = config_.transport;
  arrived.peer = server.node;
  arrived.length = bytes;
  arrived.stats = stats;
  worker_.attribute(arrived);
  return reply;
}

// Returns the reply's frame. The frame is copied if the server may still change it: when a repeated request
// is answered again with the same bytes, or when a frame is recognised as complete by its checksum, so that
// other bytes than the last ones may arrive last.
const std::byte* WriteCaller::frame_of(const fabric::LocalSlice& slot, std::uint32_t bytes, bool is_copied) {
  if (!is_copied || slot.region->elision().on()) return slot.data();
  if (copied_.size() < bytes) copied_.resize(bytes);
  fabric::copy_out(copied_.data(), slot.data(), bytes);
  return copied_.data();
}

coro::Task<bool> WriteCaller::reconnect(fabric::NodeId node) {
  if (!worker_.connected(node)) {
    LOCH_PROBE("rpc.write.reconnect");
    ++counts_.reconnects;
    const bool is_connected = co_await worker_.reconnect(node, worker_.now() + config_.reconnect_timeout);
    if (!is_connected) {
      LOCH_PROBE("rpc.write.no-way-back");
      co_return false;
    }
  }
  const std::uint32_t key = peers_[node].requests.rkey;
  const bool is_known = channel_.refresh(node, worker_.epoch(node), &peers_[node]);
  if (is_known && peers_[node].requests.rkey != key) ++incarnations_[node];
  co_return is_known;
}

}  // namespace loch::rpc
