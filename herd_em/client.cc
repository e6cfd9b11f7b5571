// A client of HERD: WRITEs a request into its request slot at the server, and waits for the datagram with the
// reply.
#include "herd_em/client.h"

#include <algorithm>

#include "common/base/probe.h"
#include "common/fabric/memory.h"

namespace loch::herd {
namespace {

constexpr Nanos sending_poll = 1'000;  // ns between checks whether a WRITE that was not inlined has completed
// longest wait before a request is repeated, in units of herd.retry
constexpr std::uint32_t most_backoff = 16;
// A client repeats a request at the earliest after this multiple of the mean latency, so that a slow server
// gets no needless repetitions.
constexpr Nanos patience_factor = 4;

}  // namespace

// The receive buffers of a client worker: two for each window slot (outstanding operation), because a
// repeated request may have two replies, and eight in reserve.
rpc::ReplyDesk::Shape ClientWorker::desk_shape(const Settings& s) {
  return {.payload_bytes = s.config.value_size,
          .buffers = 2 * s.config.window + 8,
          .waiters = s.config.window,
          .slice = s.retry};
}

ClientWorker::ClientWorker(const Settings& settings, fabric::Worker& worker, const ClientRegions& regions,
                           fabric::Fabric& fabric, const std::vector<fabric::RemoteRegion>& slots)
    : settings_(settings),
      worker_(worker),
      requests_(*regions.requests),
      fabric_(fabric),
      is_simulated_(worker.capabilities().simulated),
      client_(settings.config.client_number(worker.node(), worker.index())),
      pending_(settings.config.window),
      sequence_(std::size_t{settings.servers()} * settings.config.window, settings.first_number),
      requests_seen_(settings.servers()),
      queue_(settings.servers()),
      desk_(worker, desk_shape(settings), *regions.replies, worker.index() * desk_shape(settings).bytes(),
            *this) {
  for (const fabric::RemoteRegion& region : slots) slots_.push_back({region, worker.epoch(region.node)});
  for (Pending& pending : pending_) {
    pending.request.verb = fabric::Verb::write;
    pending.request.transport = settings.transport;
    pending.reply.resize(std::max(settings.partition.value_bytes, 1U));
    pending.fn = [](fabric::CompletionSink* self, fabric::WorkRequest&) {
      static_cast<Pending*>(self)->is_sending = false;
    };
  }
}

// Number of the server's request slot that a request is written to. In the published variant a client worker
// uses its request slots at a server worker in turn; in the fixed variant each window slot (outstanding
// operation) always uses the same request slot.
std::uint32_t ClientWorker::slot_of_request(std::uint32_t slot, std::uint32_t server) {
  if (settings_.rules.numbers) return slot;
  std::uint32_t& seen = requests_seen_[server];
  const std::uint32_t taken = seen;
  seen = seen + 1 == settings_.config.window ? 0 : seen + 1;
  return taken;
}

std::uint16_t ClientWorker::next_sequence(std::uint32_t slot, std::uint32_t server) {
  const std::uint16_t next = ++sequence_[std::size_t{server} * settings_.config.window + slot];
  if (next == 0) LOCH_PROBE("herd.number-wrapped");
  return next;
}

coro::Task<bool> ClientWorker::reach(std::uint32_t server, Nanos deadline) {
  rpc::Remote& remote = slots_[settings_.node_of_server(server)];
  const fabric::NodeId node = remote.region.node;
  if (worker_.is_connected_since(node, remote.epoch)) co_return !remote.is_lost;
  ++counts_.reconnects;
  co_return co_await rpc::restore(worker_, fabric_, remote, slots_region, deadline);
}

void ClientWorker::post(Pending& pending, Op op, std::uint64_t from, std::uint64_t to) {
  const SlotFormat& format = settings_.format;
  fabric::WorkRequest& request = pending.request;
  request.peer = settings_.node_of_server(pending.server);
  request.length = format.message_bytes(op);
  const std::uint32_t start = format.start(op);
  request.local = {&requests_, from + start};
  request.remote = slots_[request.peer].region;
  request.remote_offset = to + start;
  request.stats = pending.stats;
  request.is_inline = request.length <= worker_.capabilities().max_inline_bytes;
  request.is_signaled = !request.is_inline;
  request.sink = nullptr;
  // If the request is inlined, no completion is needed before the buffer is reused.
  if (request.is_inline) return worker_.post_detached(request);
  request.status = fabric::WcStatus::success;
  request.next = nullptr;
  request.sink = &pending;
  pending.is_sending = true;
  worker_.post(&request);
}

std::optional<std::uint32_t> ClientWorker::whose(const fabric::Received& message, std::uint32_t server) {
  if (settings_.rules.numbers) {
    const std::uint32_t slot = message.immediate >> 16;
    if (!message.has_immediate || slot >= pending_.size()) return std::nullopt;
    const Pending& pending = pending_[slot];
    const bool is_its = pending.is_waiting && (pending.server == server || settings_.rules.ignores_server) &&
                        (pending.sequence == static_cast<std::uint16_t>(message.immediate) ||
                         settings_.rules.takes_any_reply);
    return is_its ? std::optional(slot) : std::nullopt;
  }
  // The published protocol matches replies to requests by their order.
  if (queue_[server].empty()) return std::nullopt;
  const std::uint32_t slot = queue_[server].front();
  queue_[server].pop_front();
  return slot;
}

std::optional<std::uint32_t> ClientWorker::read(const fabric::Received& message, const std::byte* payload) {
  const kv::DeployConfig& c = settings_.config;
  const std::uint32_t first = c.server_index(0);
  const bool is_server = c.serves(message.from) && message.from_worker >= first &&
                         message.from_worker < first + c.server_workers;
  const std::uint32_t server = is_server ? message.from * c.server_workers + message.from_worker - first : 0;
  const auto slot = is_server ? whose(message, server) : std::nullopt;
  if (!slot) {
    LOCH_PROBE("herd.stray-reply");
    ++counts_.strays;
    return std::nullopt;
  }
  Pending& pending = pending_[*slot];
  pending.is_waiting = false;
  pending.reply_bytes = message.length;
  if (message.length > 0)
    fabric::copy_from_shared(pending.reply.data(), payload,
                             std::min<std::size_t>(message.length, pending.reply.size()));
  // the server's reply, described as a work request to count it in this operation's statistics
  fabric::WorkRequest reply;
  reply.verb = fabric::Verb::send;
  reply.transport = fabric::Transport::ud;
  reply.peer = message.from;
  reply.length = message.length;
  reply.has_immediate = message.has_immediate;
  reply.stats = pending.stats;
  worker_.attribute(reply);
  return slot;
}

void ClientWorker::forget(std::uint32_t slot, std::uint32_t server) {
  pending_[slot].is_waiting = false;
  std::erase(queue_[server], slot);
}

kv::OpResult ClientWorker::answered(const Pending& pending, Op op, std::uint32_t retries) const {
  kv::OpResult result;
  result.retries = retries;
  if (op == Op::get) {
    result.status = pending.reply_bytes == 0 ? kv::OpStatus::not_found : kv::OpStatus::ok;
    if (pending.reply_bytes > 0)
      result.value = {pending.reply.data(), pending.reply_bytes,
                      std::min(pending.reply_bytes, settings_.partition.value_bytes)};
  } else if (op == Op::remove) {
    const bool was_there = pending.reply_bytes > 0 && pending.reply[0] == std::byte{1};
    result.status = was_there ? kv::OpStatus::ok : kv::OpStatus::not_found;
  } else if (pending.reply_bytes > 0 && pending.reply[0] == std::byte{0}) {
    result.status = kv::OpStatus::table_full;
  } else if (op == Op::insert_if_absent && pending.reply_bytes > 0 && pending.reply[0] == std::byte{2}) {
    result.status = kv::OpStatus::exists;
  }
  return result;
}

coro::Task<kv::OpResult> ClientWorker::call(std::uint32_t slot, Op op, kv::Key key, kv::ValueView value,
                                            fabric::OpStats* stats) {
  const Settings& s = settings_;
  Pending& pending = pending_[slot];
  const std::uint64_t from = (std::uint64_t{worker_.index()} * s.config.window + slot) * s.format.slot_bytes;
  const fabric::CpuCosts& costs = worker_.costs();
  co_await worker_.compute(costs.operation() + costs.hash(key.size) + costs.copy(s.format.message_bytes(op)));
  while (pending.is_sending) co_await worker_.spin_until(worker_.now() + sending_poll);

  const KeyHash hash = hash_of(key, s.rules.never_zero);
  pending.server = s.server_of(hash);
  pending.stats = stats;
  pending.sequence = next_sequence(slot, pending.server);
  const std::uint32_t server_slot = slot_of_request(slot, pending.server);
  const std::uint64_t to =
      s.slot_at(pending.server % s.config.server_workers, client_ * s.config.window + server_slot);
  s.format.write(requests_, from, op, hash, value.data, pending.sequence);
  pending.is_waiting = true;
  if (!s.rules.numbers) queue_[pending.server].push_back(slot);
  desk_.expect(slot);

  const Nanos posted = worker_.now(), give_up = posted + s.give_up;
  Nanos patience = std::max(s.retry, patience_factor * usual_latency_);
  std::uint32_t retries = 0;
  for (;; ++retries) {
    bool is_reached = true;
    if (s.transport == fabric::Transport::rc) is_reached = co_await reach(pending.server, give_up);
    if (is_reached && !pending.is_sending && (retries == 0 || s.rewrites)) {
      if (retries > 0 && !s.rules.repeats_word)
        s.format.set_attempt(requests_, from, static_cast<std::uint8_t>(retries));
      post(pending, op, from, to);
    }
    if (s.rules.awaits_no_reply && op != Op::get) break;
    // Only a simulation charges time for posting, and only RC may have connected anew meanwhile; else the
    // clock need not be read again.
    const Nanos now =
        retries == 0 && !is_simulated_ && s.transport != fabric::Transport::rc ? posted : worker_.now();
    const Nanos until = std::min(now + patience, give_up);
    rpc::ReplyDesk::Outcome outcome = co_await desk_.park(slot, until);
    if (outcome == rpc::ReplyDesk::Outcome::leads) [[unlikely]] {
      const rpc::ReplyDesk::Outcome led = co_await desk_.lead(slot, until);
      outcome = led;
    }
    if (outcome == rpc::ReplyDesk::Outcome::answered) {
      counts_.retries += retries;
      usual_latency_ += (worker_.now() - posted - usual_latency_) / 8;
      co_await worker_.compute(costs.copy(pending.reply_bytes));
      co_return answered(pending, op, retries);
    }
    if (outcome == rpc::ReplyDesk::Outcome::stopping || worker_.now() >= give_up) break;
    patience = std::min(2 * patience, std::max(patience, most_backoff * s.retry));
  }
  forget(slot, pending.server);
  counts_.retries += retries;
  if (s.rules.awaits_no_reply && op != Op::get) co_return kv::OpResult{.status = kv::OpStatus::ok};
  LOCH_PROBE("herd.timed-out");
  ++counts_.timeouts;
  if (s.rules.keeps_sequence) --sequence_[std::size_t{pending.server} * s.config.window + slot];
  kv::OpResult lost{.status = kv::OpStatus::timeout};
  lost.effect = op == Op::get || s.rules.timeouts_are_none ? kv::Effect::none : kv::Effect::unknown;
  lost.retries = retries;
  co_return lost;
}

}  // namespace loch::herd
