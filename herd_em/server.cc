// A server worker: polls request slots, executes requests with prefetching, and sends replies in batches.
#include "herd_em/server.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::herd {

Server::Server(const Settings& settings, std::uint32_t index, fabric::Region& slots, fabric::Region& replies)
    : settings_(settings),
      index_(index),
      first_slot_(settings.slot_at(index, 0)),
      word_at_(settings.format.word_at()),
      slot_bytes_(settings.format.slot_bytes),
      slot_count_(settings.slots()),
      slots_(slots),
      replies_(replies),
      partition_(settings.partition),
      duplicates_(settings.slots(), settings.first_number == 0 ? 0 : 0x10000U + settings.first_number),
      last_status_(settings.slots()),
      next_slot_(settings.clients()),
      requests_(std::size_t{settings.batch} + 2),
      at_bucket_(&requests_[settings.batch]),
      at_entry_(&requests_[settings.batch + 1]) {
  for (Request& request : requests_) request.value.resize(settings.partition.value_bytes);
  for (std::uint32_t i = 0; i < settings.batch; ++i) batch_.push_back(&requests_[i]);
  const std::uint32_t window = settings.config.window;
  for (std::uint32_t slot = 0; slot < settings.slots(); ++slot)
    senders_.push_back({settings.address_of_client(slot / window), slot % window});
}

// ---- Polling --------------------------------------------------------------------------------------
bool Server::is_polled(std::uint32_t slot) const {
  if (settings_.rules.scans_all) return true;
  const std::uint32_t window = settings_.config.window;
  return next_slot_[slot / window] == slot % window;
}

bool Server::has_request(std::uint32_t slot, std::uint64_t word) const {
  if (settings_.format.has_trailer && !duplicates_.is_news(slot, word)) return false;
  return settings_.format.is_here(slots_, slot_at(slot), word);
}

// Whether the request slot holds a complete new request. Checks a GET here, since most requests are GETs: its
// body is the key alone. Leaves other operations and the published layouts to is_any_ready().
bool Server::is_ready(void* self, std::uint32_t slot, std::uint64_t word) {
  auto* server = static_cast<Server*>(self);
  const rpc::Trailer trailer = rpc::Trailer::unpack(word);
  if (server->first_key_ == nullptr || trailer.code != static_cast<std::uint8_t>(Op::get)) [[unlikely]]
    return is_any_ready(server, slot, word);
  if (!server->duplicates_.is_news(slot, word)) return false;
  const std::byte* const from = server->first_key_ + slot * std::uint64_t{server->slot_bytes_};
  SlotFormat::Kept& kept = server->kept_;
  kept.op = Op::none;
  const std::array<std::uint64_t, 2> key{fabric::load_word(from), fabric::load_word(from + 8)};
  static_assert(sizeof key == keyhash_bytes);
  std::memcpy(kept.body.data(), key.data(), sizeof key);
  if (rpc::body_check(kept.body.data(), sizeof key, trailer.sequence, trailer.code, 0) != trailer.check)
    return false;
  kept.op = Op::get;
  server->whole_slot_ = slot;
  server->whole_word_ = word;
  return true;
}

bool Server::is_any_ready(Server* server, std::uint32_t slot, std::uint64_t word) {
  const SlotFormat& format = server->settings_.format;
  if (word == 0 || !server->is_polled(slot) ||
      (format.has_trailer && !server->duplicates_.is_news(slot, word)) ||
      !format.keep_if_here(server->slots_, server->slot_at(slot), word, server->parts_, &server->kept_))
    return false;
  server->whole_slot_ = slot;
  server->whole_word_ = word;
  return true;
}

void Server::advance(std::uint32_t slot) {
  std::uint32_t& next = next_slot_[slot / settings_.config.window];
  if (next == slot % settings_.config.window) next = next + 1 == settings_.config.window ? 0 : next + 1;
}

// Fetches the request that polling has just found complete, if polling has kept a copy of it and the request
// slot has not changed since. Returns false if it did nothing.
[[gnu::always_inline]] inline bool Server::fetch_kept(std::uint32_t slot, Request& into) {
  if (whole_word_ == 0 || slot != whole_slot_ || kept_.op == Op::none || settings_.rules.trusts_first_look ||
      fabric::load_word(slots_.at(slot_at(slot) + word_at_)) != whole_word_)
    return false;
  into.slot = slot;
  into.what = settings_.format.read(kept_, whole_word_, parts_, into.value.data());
  duplicates_.looked_at(slot, whole_word_);
  whole_word_ = 0;
  if (!settings_.rules.scans_all) advance(slot);
  ++counts_.requests;
  return true;
}

bool Server::fetch(std::uint32_t slot, Request& into) {
  if (fetch_kept(slot, into)) return true;
  const SlotFormat& format = settings_.format;
  const std::uint64_t at = slot_at(slot);
  const std::uint64_t word = fabric::load_word(slots_.at(at + word_at_));
  // Whether polling has just found this request complete. It then need not look whether the request is here;
  // if the client overwrites the request later, the check after the copy fails.
  const bool was_whole = word != 0 && slot == whole_slot_ && word == whole_word_;
  whole_word_ = 0;
  if (!was_whole && !has_polled_request(slot, word)) return false;
  into.slot = slot;
  if (into.what = format.read(slots_, at, word, into.value.data()); format.has_trailer) {
    // The client may have given up and overwritten the request slot with its next request during the copy, so
    // check again.
    if (!settings_.rules.trusts_first_look && !format.is_here(slots_, at, word)) return false;
    duplicates_.looked_at(slot, word);
  } else {
    format.clear(slots_, at);
  }
  if (!settings_.rules.scans_all) advance(slot);
  ++counts_.requests;
  return true;
}

// Fetches requests by looking once at each request slot, starting at `first`, until the batch is full.
void Server::collect(std::uint32_t first) {
  collected_ = 0;
  const auto slots = static_cast<std::uint32_t>(senders_.size());
  std::uint32_t slot = first;
  do {
    if (fetch(slot, *batch_[collected_])) ++collected_;
    slot = slot + 1 == slots ? 0 : slot + 1;
  } while (slot != first && collected_ < batch_.size());
  start_ = slot;
}

// Fetches one request, of which polling has mostly kept a copy; returns false if there is none. A GET that
// is_ready() has checked is taken from the copy without the further checks of fetch_kept(); all other
// requests are left to collect().
bool Server::collect_one(std::uint32_t first) {
  if (first_key_ == nullptr || whole_word_ == 0 || first != whole_slot_ || kept_.op != Op::get ||
      fabric::load_word(first_key_ + first * std::uint64_t{slot_bytes_} + keyhash_bytes) != whole_word_)
      [[unlikely]] {
    collect(first);
    return collected_ != 0;
  }
  Request& into = *batch_[0];
  into.slot = first;
  into.what.op = Op::get;
  into.what.sequence = rpc::Trailer::unpack(whole_word_).sequence;
  std::memcpy(&into.what.key, kept_.body.data(), sizeof into.what.key);
  duplicates_.looked_at(first, whole_word_);
  whole_word_ = 0;
  ++counts_.requests;
  start_ = first + 1 == slot_count_ ? 0 : first + 1;
  return true;
}

coro::Task<void> Server::run(fabric::Worker& worker) {
  const Settings& s = settings_;
  fabric_index_ = worker.index();
  charges_ = charges_of(worker.costs());
  is_charged_ = charges_ != Charges{};
  parts_ = s.format.parts_of(slots_);
  const SlotFormat::Parts& get = parts_[static_cast<std::size_t>(Op::get)];
  // If these conditions hold, a GET consists of its key and, directly behind it, its trailer (number and
  // checksum).
  if (get.is_kept && get.is_key && s.rules.scans_all && !s.rules.trusts_first_look &&
      get.start + keyhash_bytes == word_at_)
    first_key_ = slots_.at(first_slot_ + get.start);
  if (sender_ == nullptr)
    sender_ = std::make_unique<rpc::DatagramSender>(worker, s.replies, replies_, index_ * s.replies.bytes());
  const fabric::WatchSet set{.region = &slots_,
                             .offset = first_slot_ + word_at_,
                             .stride = s.format.slot_bytes,
                             .count = s.slots(),
                             .ready = &Server::is_ready,
                             .context = this,
                             .known = duplicates_.seen()};
  if (s.prefetch == Prefetch::pipeline)
    co_await serve_by_pipeline(worker, set);
  else
    co_await serve_by_batches(worker, set);
  sender_->flush();
}

// HERD 2014's pipeline: each new request moves the earlier requests in the pipeline on by one stage. A single
// coroutine, because one for each request would cost a frame and two switches.
coro::Task<void> Server::serve_by_pipeline(fabric::Worker& worker, fabric::WatchSet set) {
  while (!worker.stopping()) {
    const Nanos deadline = has_bucket_ || has_entry_ ? worker.now() + settings_.drain : fabric::forever;
    const fabric::WatchAny any = co_await worker.watch_any(set, start_, deadline);
    if (any.outcome == fabric::WatchOutcome::stopping) break;
    const bool has_new = any.outcome != fabric::WatchOutcome::timed_out;
    if (has_new) {
      if (!collect_one(any.index)) continue;
      ++counts_.batches;
    } else {
      LOCH_PROBE("herd.pipeline-drained");
      ++counts_.drains;
    }
    if (has_entry_) {
      if (is_charged_) {
        const Nanos wait = stall(charges_.memory, issued_at(worker) - at_entry_->prefetched_at);
        co_await worker.compute(wait + charges_.entry);
      }
      if (!sender_->has_room()) co_await sender_->room();
    }
    if (!is_charged_) {
      move_on(has_new);
      continue;
    }
    leave_pipeline();
    if (has_bucket_) {
      const Nanos wait = stall(charges_.memory, issued_at(worker) - at_bucket_->prefetched_at);
      co_await worker.compute(wait + charges_.search);
      go_to_entry();
      at_entry_->prefetched_at = issued_at(worker);
    }
    if (has_new) {
      const auto op = static_cast<std::size_t>(batch_[0]->what.op);
      co_await worker.compute(charges_.fetch_first[op] + charges_.issue);
      enter_pipeline();
      at_bucket_->prefetched_at = issued_at(worker);
    }
    sender_->flush();
  }
}

// leave_pipeline(), go_to_entry() and enter_pipeline() are the three stages of the pipeline, the last one
// first.
void Server::leave_pipeline() {
  if (!has_entry_) return;
  answer(*at_entry_);
  has_entry_ = false;
}

void Server::go_to_entry() {
  partition_.prefetch_entry(at_bucket_->what.key);
  std::swap(at_entry_, at_bucket_);
  has_entry_ = true;
  has_bucket_ = false;
}

void Server::enter_pipeline() {
  std::swap(at_bucket_, batch_[0]);
  partition_.prefetch_bucket(at_bucket_->what.key);
  has_bucket_ = true;
}

// Moves all requests in the pipeline on by one stage and, if `has_new`, puts the newly fetched request into
// the first stage. For fabrics on which no step is charged CPU time.
void Server::move_on(bool has_new) {
  leave_pipeline();
  if (has_bucket_) go_to_entry();
  if (has_new) enter_pipeline();
  sender_->flush();
}

coro::Task<void> Server::serve_by_batches(fabric::Worker& worker, fabric::WatchSet set) {
  while (!worker.stopping()) {
    const fabric::WatchAny any = co_await worker.watch_any(set, start_, fabric::forever);
    if (any.outcome == fabric::WatchOutcome::stopping) break;
    collect(any.index);
    if (collected_ == 0) continue;
    ++counts_.batches;
    co_await serve_batch(worker);
  }
}

// ---- What it costs --------------------------------------------------------------------------------
// CPU time of the steps of a request. A request is copied from the cache line that the NIC wrote; the cache
// miss on the first request of a pass over the slots is charged by polling, and those on later requests are
// charged here. Copies to or from cached lines are charged without a miss: misses are charged where the
// worker waits for them.
Server::Charges Server::charges_of(const fabric::CpuCosts& costs) const {
  const auto move = [&](std::uint32_t bytes) { return costs.copy(bytes) - costs.copy(0); };
  Charges charges;
  for (std::size_t op = 0; op < ops; ++op) {
    const auto kind = static_cast<Op>(op);
    const std::uint32_t bytes = settings_.format.message_bytes(kind);
    const bool is_checked =
        settings_.format.has_trailer && settings_.format.arrival(kind) == rpc::Arrival::by_check;
    const Nanos checking = is_checked ? costs.hash(bytes) : 0;
    charges.fetch_first[op] = move(bytes) + checking;
    charges.fetch_next[op] = costs.copy(bytes) + checking;
  }
  charges.search = costs.compare(sizeof(Index::Bucket));
  charges.issue = costs.compare(0);
  charges.entry = costs.compare(keyhash_bytes) + move(settings_.config.value_size);
  charges.memory = costs.memory();
  return charges;
}

// CPU time of a batch. All prefetches of buckets are issued back to back, and so are all prefetches of log
// entries. So the batch stalls only twice, each time for the part of a memory latency that is left of the
// first prefetch when the last one has been issued.
Nanos Server::batch_cost() const {
  Nanos total = 0;
  for (std::uint32_t i = 0; i < collected_; ++i) {
    const auto op = static_cast<std::size_t>(batch_[i]->what.op);
    total += (i == 0 ? charges_.fetch_first[op] : charges_.fetch_next[op]) + charges_.search + charges_.entry;
  }
  if (settings_.prefetch == Prefetch::none) return total + 2 * charges_.memory * collected_;
  const Nanos others = collected_ - 1;
  return total + charges_.issue * collected_ + stall(charges_.memory, others * charges_.issue) +
         stall(charges_.memory, others * charges_.search);
}

// ---- Executing ------------------------------------------------------------------------------------
coro::Task<void> Server::serve_batch(fabric::Worker& worker) {
  const Nanos cost = batch_cost();
  co_await worker.compute(cost);
  if (settings_.prefetch == Prefetch::batch) {
    for (std::uint32_t i = 0; i < collected_; ++i) partition_.prefetch_bucket(batch_[i]->what.key);
    for (std::uint32_t i = 0; i < collected_; ++i) partition_.prefetch_entry(batch_[i]->what.key);
  }
  for (std::uint32_t i = 0; i < collected_; ++i) {
    if (!sender_->has_room()) co_await sender_->room();
    answer(*batch_[i]);
  }
  sender_->flush();
}

void Server::answer(Request& request) {
  const Answer answer = execute(request, sender_->buffer());
  if (!answer.is_due) return;
  const Sender& sender = senders_[request.slot];
  if (settings_.rules.numbers) [[likely]]
    return sender_->send(sender.address, answer.length, true,
                         sender.window_slot << 16 | request.what.sequence);
  const bool has_index = settings_.format.layout == Layout::y2016;
  sender_->send(sender.address, answer.length, has_index, has_index ? fabric_index_ : std::uint32_t{0});
}

[[gnu::always_inline]] inline Server::Answer Server::execute(Request& request, std::byte* out) {
  if (!settings_.rules.numbers) return execute_fresh(request, out);
  const std::uint64_t sequence = rpc::extend_sequence(duplicates_.last(request.slot), request.what.sequence);
  const rpc::Freshness freshness = duplicates_.judge(request.slot, sequence);
  if (freshness != rpc::Freshness::fresh && !settings_.rules.executes_duplicates) [[unlikely]] {
    if (freshness == rpc::Freshness::repeated) return repeat(request, out);
    ++counts_.stale;
    return {};
  }
  const Answer answer = execute_fresh(request, out);
  duplicates_.executed(request.slot, sequence, answer.length);
  return answer;
}

// Answers a duplicate request without executing it again: repeats the last reply. Only a GET is executed
// again, which is correct because the client still waits for the GET's reply.
Server::Answer Server::repeat(Request& request, std::byte* out) {
  LOCH_PROBE("herd.request-repeated");
  ++counts_.repeated;
  if (request.what.op == Op::get) return execute_fresh(request, out);
  const std::uint32_t length = duplicates_.reply_bytes(request.slot);
  const std::uint8_t status = settings_.rules.forgets_status ? 1 : last_status_[request.slot];
  if (length > 0) fabric::copy_to_shared(out, &status, 1);
  return {true, length};
}

// Executes a request and writes the reply: for a GET the value, or no bytes for a miss; for other operations
// a status byte. In the layout of 2016 the reply to a PUT that succeeded has no bytes.
[[gnu::always_inline]] inline Server::Answer Server::execute_fresh(Request& request, std::byte* out) {
  if (request.what.op != Op::get) return change(request, out);
  const auto length = partition_.get(request.what.key, out);
  return {true, std::min(length.value_or(0), settings_.config.value_size)};
}

Server::Answer Server::change(Request& request, std::byte* out) {
  std::uint8_t status = 1;
  const bool finds_key = request.what.op == Op::insert_if_absent && partition_.has(request.what.key);
  if (finds_key) {
    status = settings_.rules.inserts_say_done ? 1 : 2;
  } else if (brings_value(request.what.op)) {
    const bool has_room = partition_.put(request.what.key, request.value.data(), settings_.config.value_size,
                                         settings_.partition.value_bytes);
    status = has_room ? 1 : 0;
  } else {
    status = partition_.remove(request.what.key) ? 1 : 0;
  }
  last_status_[request.slot] = status;
  const bool is_silent = request.what.op == Op::put && settings_.format.layout == Layout::y2016;
  if (is_silent && status == 1) return {true, 0};
  fabric::copy_to_shared(out, &status, 1);
  return {true, 1};
}

}  // namespace loch::herd
