// Makes queue pairs (many at once at start-up, single ones on the connector's thread during the run), and
// reconnects broken ones.
#include "common/fabric/verbs/connector.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "common/base/check.h"
#include "common/fabric/verbs/events.h"

namespace loch::fabric::verbs {
namespace {

constexpr Nanos ask_interval = 500'000'000, port_patience = 5'000'000'000;
constexpr int look_interval_ms = 100;

// The number of one attempt to connect a queue pair, made from the queue pair number and PSN of its posting
// end. An answer with another number belongs to an earlier attempt and is ignored.
std::uint64_t try_of(const LinkRecord& sender) { return std::uint64_t{sender.qpn} << 24 | sender.psn; }

}  // namespace

Connector::Connector(Shared* shared, Peers* peers)
    : shared_(shared),
      peers_(peers),
      workers_(shared->peers.size()),
      patience_(connect_patience(shared->control == nullptr ? 0 : shared->control->longest_silence())),
      runs_ended_(shared->control == nullptr ? 1 : shared->control->ranks()) {}

Connector::~Connector() {
  stop();
  if (wake_fd_ >= 0) close(wake_fd_);
}

Result<> Connector::open() {
  for (const Device* device : shared_->rails) {
    passive_cqs_.emplace_back(ibv_create_cq(device->context(), 64, nullptr, nullptr, 0));
    if (passive_cqs_.back() == nullptr)
      return fail(ErrorCode::exhausted, fmt::format("verbs: no completion queue: {}", std::strerror(errno)));
    const int fd = device->context()->async_fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return fail(ErrorCode::internal, fmt::format("verbs: asynchronous events: {}", std::strerror(errno)));
  }
  symptoms_.resize(shared_->rails.size());
  ports_down_since_.resize(shared_->rails.size());
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake_fd_ < 0)
    return fail(ErrorCode::exhausted, fmt::format("verbs: eventfd: {}", std::strerror(errno)));
  return {};
}

void Connector::add_worker(VerbsWorker* worker) {
  auto& node = workers_.at(worker->node());
  if (node.size() <= worker->index()) node.resize(worker->index() + 1u);
  node[worker->index()] = worker;
}

bool Connector::is_local(NodeId node) const {
  return shared_->control == nullptr || node == shared_->control->rank();
}

VerbsWorker* Connector::find_worker(NodeId node, std::uint16_t index) const {
  const auto& workers = workers_.at(node);
  return index < workers.size() ? workers[index] : nullptr;
}

// ---- Making the two ends of queue pairs ----------------------------------------------------------

Result<LinkRecord> Connector::open_sender(VerbsWorker& worker, SendQueue& queue) {
  const Device& device = *shared_->rails[queue.rail];
  if (!queue.qp) {
    const Capabilities& can = device.capabilities();
    queue.prepare(std::bit_floor(can.send_queue_depth));
    LOCH_ASSIGN(queue.qp, QueuePair::create(worker.pd(queue.rail),
                                            {queue.key.transport, worker.send_cq(queue.rail),
                                             passive_cqs_[queue.rail].get(), nullptr, queue.depth, 1,
                                             can.max_inline_bytes, device.operations(queue.key.transport)}));
  }
  senders_[queue.key] = {&worker, &queue};
  queue.forget_requests();
  LOCH_TRY(queue.qp.restart(device.port()));
  return LinkRecord{queue.key, queue.qp.qpn(), queue.qp.psn()};
}

Result<QueuePair> Connector::make_receiver(const LinkKey& key) {
  VerbsWorker* worker = find_worker(key.peer, key.peer_worker);
  ibv_cq* passive_cq = passive_cqs_[shared_->rail_of(key.peer)].get();
  QueuePairSpec spec;
  spec.transport = key.transport;
  spec.send_cq = passive_cq;
  spec.recv_cq = worker != nullptr ? worker->receive_cq() : passive_cq;
  spec.srq = worker != nullptr ? worker->shared_receives(key.transport) : nullptr;
  spec.recv_depth = 1;
  return QueuePair::create(shared_->device_to(key.peer).pd(), spec);
}

Result<LinkRecord> Connector::answer(const LinkRecord& sender) {
  const LinkKey& key = sender.key;
  const Peer* peer = shared_->peers.at(key.node);
  if (peer == nullptr)
    return fail(ErrorCode::unavailable, fmt::format("verbs: node {} is not known", key.node));
  VerbsWorker* worker = find_worker(key.peer, key.peer_worker);
  if (worker == nullptr && key.peer_worker != 0) {
    return fail(ErrorCode::not_found,
                fmt::format("verbs: node {} has no worker {}", key.peer, key.peer_worker));
  }
  Receiver& receiver = receivers_[key];
  if (receiver.asked == sender) return receiver.answer;
  receiver.asked.reset();
  QueuePair& end = receiver.end;
  if (!end) {
    LOCH_ASSIGN(end, make_receiver(key));
  }
  const std::uint32_t rail = shared_->rail_of(key.peer);
  const Device& device = *shared_->rails[rail];
  LOCH_TRY(end.restart(device.port()));
  if (worker != nullptr && !worker->sources().add(end.qpn(), {key.node, key.worker}))
    return fail(ErrorCode::exhausted, fmt::format("verbs: too many queue pairs end at worker {} of node {}",
                                                  key.peer_worker, key.peer));
  LOCH_TRY(end.receive_from(device.port(), peer->record.addresses[rail], sender,
                            std::min(device.rd_atomic_in(), peer->record.rd_atomic_out)));
  LOCH_TRY(end.make_sender(device.port(), 1));
  receiver.asked = sender;
  receiver.answer = {key, end.qpn(), end.psn()};
  return receiver.answer;
}

Result<> Connector::complete(VerbsWorker& worker, SendQueue& queue, const LinkRecord& receiver) {
  const Device& device = *shared_->rails[queue.rail];
  const Peer* peer = shared_->peers.at(queue.key.peer);
  if (peer == nullptr)
    return fail(ErrorCode::unavailable, fmt::format("verbs: node {} is not known", queue.key.peer));
  LOCH_TRY(queue.qp.receive_from(device.port(), peer->address, receiver, 1));
  LOCH_TRY(queue.qp.make_sender(device.port(),
                                std::min(device.capabilities().max_rd_atomic, peer->record.rd_atomic_in)));
  ++connects_;
  queue.incarnation = peer->record.incarnation;
  queue.state.store(SendQueue::State::ready, std::memory_order_release);
  worker.notice();
  return {};
}

// ---- The connector's thread ----------------------------------------------------------------------

void Connector::start() {
  if (thread_.joinable()) return;
  is_stopping_ = false;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "connector");
    body();
  });
}

void Connector::stop() {
  if (!thread_.joinable()) return;
  is_stopping_ = true;
  wake();
  thread_.join();
}

void Connector::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

void Connector::connect_later(VerbsWorker& worker, SendQueue& queue) {
  {
    const std::scoped_lock lock(mutex_);
    wanted_.emplace_back(&worker, &queue);
  }
  wake();
}

void Connector::notice_workers() {
  {
    const std::scoped_lock lock(mutex_);
    run_ended_.notify_all();
  }
  for (const auto& workers : workers_) {
    for (VerbsWorker* worker : workers) {
      if (worker != nullptr) worker->notice();
    }
  }
}

void Connector::deliver(std::uint32_t from, std::string_view message) {
  auto notice = parse_notice(message, {static_cast<std::uint32_t>(shared_->peers.size())});
  if (!notice) {
    ++bad_messages_;
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    incoming_.push_back({from, std::move(*notice)});
  }
  wake();
}

void Connector::body() {
  std::vector<pollfd> waits = {{wake_fd_, POLLIN, 0}};
  for (const Device* device : shared_->rails) waits.push_back({device->context()->async_fd, POLLIN, 0});
  while (!is_stopping_) {
    (void)poll(waits.data(), waits.size(), look_interval_ms);
    std::uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t got = read(wake_fd_, &wakes, sizeof wakes);
    std::vector<std::pair<VerbsWorker*, SendQueue*>> wanted;
    std::vector<Incoming> incoming;
    {
      const std::scoped_lock lock(mutex_);
      wanted.swap(wanted_);
      incoming.swap(incoming_);
    }
    for (const Incoming& one : incoming) heed(one);
    for (const auto& [worker, queue] : wanted) connect(*worker, *queue);
    for (std::size_t rail = 0; rail < shared_->rails.size(); ++rail) heed_events(rail);
    ask_again();
  }
}

void Connector::refuse(VerbsWorker& worker, SendQueue& queue, const std::string& why) {
  if (refusals_++ == 0 && !is_stopping_) fmt::print(stderr, "{}\n", why);
  queue.state.store(SendQueue::State::refused, std::memory_order_release);
  worker.notice();
}

void Connector::connect(VerbsWorker& worker, SendQueue& queue) {
  if (shared_->is_lost(queue.key.peer))
    return refuse(worker, queue, fmt::format("node {} is lost", queue.key.peer));
  auto sender = open_sender(worker, queue);
  if (!sender) return refuse(worker, queue, sender.error().message);
  if (is_local(queue.key.peer)) {
    auto receiver = answer(*sender);
    if (!receiver) return refuse(worker, queue, receiver.error().message);
    if (auto ok = complete(worker, queue, *receiver); !ok) refuse(worker, queue, ok.error().message);
    return;
  }
  const Nanos now = shared_->now();
  asking_[queue.key] = {&worker, &queue, *sender, now + patience_, now + ask_interval};
  send(queue.key.peer, {Notice::Kind::connect, *sender, queue.key.peer, 0, {}});
}

void Connector::ask_again() {
  const Nanos now = shared_->now();
  for (auto at = asking_.begin(); at != asking_.end();) {
    Asking& asking = at->second;
    if (shared_->is_lost(at->first.peer) || now >= asking.give_up) {
      refuse(*asking.worker, *asking.queue, fmt::format("node {} does not answer", at->first.peer));
      at = asking_.erase(at);
      continue;
    }
    if (now >= asking.ask_again) {
      asking.ask_again = now + ask_interval;
      send(at->first.peer, {Notice::Kind::connect, asking.record, at->first.peer, 0, {}});
    }
    ++at;
  }
}

void Connector::heed(const Incoming& incoming) {
  const Notice& notice = incoming.notice;
  const LinkKey& key = notice.link.key;
  switch (notice.kind) {
    case Notice::Kind::connect: {
      if (key.node != incoming.from || !is_local(key.peer)) break;
      auto receiver = answer(notice.link);
      if (receiver)
        return send(incoming.from, {Notice::Kind::accept, *receiver, key.peer, try_of(notice.link), {}});
      return send(incoming.from, {Notice::Kind::refuse, notice.link, key.peer, try_of(notice.link), {}});
    }
    case Notice::Kind::accept:
    case Notice::Kind::refuse: {
      const auto found = asking_.find(key);
      if (found == asking_.end() || key.peer != incoming.from) break;
      const Asking asking = found->second;
      if (notice.number != try_of(asking.record)) return;  // the answer is to an earlier connection attempt
      asking_.erase(found);
      if (notice.kind == Notice::Kind::refuse)
        return refuse(*asking.worker, *asking.queue, fmt::format("node {} refuses a connection", key.peer));
      if (auto ok = complete(*asking.worker, *asking.queue, notice.link); !ok)
        refuse(*asking.worker, *asking.queue, ok.error().message);
      return;
    }
    case Notice::Kind::reconnect:
      if (key.peer != incoming.from || !is_local(key.node)) break;
      return reconnect(key);
    case Notice::Kind::fence:
      cut_ends_of(notice.node);
      return send(incoming.from, {Notice::Kind::fenced, {}, notice.node, 0, {}});
    case Notice::Kind::fenced: {
      const std::scoped_lock lock(mutex_);
      fenced_by_.push_back(incoming.from);
      fenced_.notify_all();
      return;
    }
    case Notice::Kind::clients_ended:
      if (incoming.from < runs_ended_.size()) {
        const std::scoped_lock lock(mutex_);
        runs_ended_[incoming.from] = notice.number;
        run_ended_.notify_all();
      }
      return;
    case Notice::Kind::back:
    case Notice::Kind::here:
      if (notice.record.node != incoming.from || is_local(notice.record.node)) break;
      return meet_again(notice);
  }
  ++bad_messages_;
}

// ---- Asynchronous events and failed queue pairs ----------------------------------------------------

void Connector::heed_events(std::size_t rail) {
  ibv_async_event event{};
  while (ibv_get_async_event(shared_->rails[rail]->context(), &event) == 0) {
    ++events_;
    heed_event(rail, event);
    const ibv_qp* broken =
        is_of_queue_pair(event.event_type) && effect_of(event.event_type) != EventEffect::none
            ? event.element.qp
            : nullptr;
    ibv_ack_async_event(&event);
    if (broken != nullptr) receiving_end_broke(broken);
  }
  look_at_port(rail);
}

// Counts an asynchronous event of a rail's device, and ends the run if the device does not work any more.
void Connector::heed_event(std::size_t rail, const ibv_async_event& event) {
  const Device& device = *shared_->rails[rail];
  const std::string_view event_is = event_name(event.event_type);
  EventEffect effect = effect_of(event.event_type);
  // This rail is one port of the device; the failure of another port does not matter to it.
  if (effect == EventEffect::port_down && event.element.port_num != device.port().number)
    effect = EventEffect::none;
  {
    const std::scoped_lock lock(mutex_);
    ++named_events_[event_is];
    if (effect >= EventEffect::symptom) ++symptoms_[rail][event_is];
  }
  std::optional<Nanos>& down_since = ports_down_since_[rail];
  if (effect == EventEffect::port_down && !down_since) down_since = shared_->now();
  if (effect == EventEffect::fatal)
    shared_->fail(fmt::format("verbs: {} has failed: it reports {} (dmesg)", device.name(), event_is));
}

// Ends the run if the port has been down for more than 5 s (port_patience). Requests survive a shorter time,
// because the NIC sends them again.
void Connector::look_at_port(std::size_t rail) {
  std::optional<Nanos>& down_since = ports_down_since_[rail];
  if (!down_since) return;
  const Device& device = *shared_->rails[rail];
  ibv_port_attr state{};
  if (ibv_query_port(device.context(), device.port().number, &state) == 0 && state.state == IBV_PORT_ACTIVE) {
    down_since.reset();
  } else if (shared_->now() - *down_since > port_patience) {
    shared_->fail(
        fmt::format("verbs: port {} of {} went down and has not come back within {}: cable, switch?",
                    device.port().number, device.name(), format_duration(port_patience)));
  }
}

void Connector::begin_run(std::uint64_t run) {
  run_ = run;
  if (run == 1) return;
  const std::scoped_lock lock(mutex_);
  for (auto& of_rail : symptoms_) of_rail.clear();
}

void Connector::add_symptoms(std::size_t rail, PortHealth& health) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& [event, count] : symptoms_[rail]) health.changes[std::string(event)] = {count, false};
}

// Called when the receiving end of a queue pair has failed. On RC, the sender learns of the failure from a
// completion. A UC sender gets no error, so it is told to connect again; otherwise every message that it
// sends from now on would be lost.
void Connector::receiving_end_broke(const ibv_qp* qp) {
  for (const auto& [key, end] : receivers_) {
    if (end.end.get() != qp || key.transport != Transport::uc) continue;
    if (is_local(key.node)) return reconnect(key);
    return send(key.node, {Notice::Kind::reconnect, {key, 0, 0}, key.peer, 0, {}});
  }
}

void Connector::reconnect(const LinkKey& key) {
  const auto found = senders_.find(key);
  if (found == senders_.end()) return;
  ++reconnects_;
  const auto [worker, queue] = found->second;
  SendQueue::State expected = SendQueue::State::ready;
  if (queue->state.compare_exchange_strong(expected, SendQueue::State::broken)) worker->notice();
}

void Connector::cut_ends_of(NodeId dead) {
  for (auto& [key, receiver] : receivers_) {
    if (key.node != dead || !receiver.end) continue;
    receiver.asked.reset();
    if (auto ok = receiver.end.cut(); !ok) fmt::print(stderr, "{}\n", ok.error().message);
  }
}

Result<> Connector::fence(NodeId dead, Nanos within) {
  if (!shared_->is_lost(dead))
    return fail(ErrorCode::unavailable, fmt::format("node {} is not known to be dead", dead));
  {
    const std::scoped_lock lock(mutex_);
    fenced_by_.clear();
  }
  // Asks every live process, this one included, to cut its queue pairs that receive from the dead node.
  for (std::uint32_t rank = 0; rank < shared_->control->ranks(); ++rank) {
    if (!shared_->is_lost(static_cast<NodeId>(rank))) send(rank, {Notice::Kind::fence, {}, dead, 0, {}});
  }
  std::unique_lock lock(mutex_);
  const auto is_done = [&] {
    for (std::uint32_t rank = 0; rank < shared_->control->ranks(); ++rank) {
      if (!shared_->is_lost(static_cast<NodeId>(rank)) &&
          std::ranges::find(fenced_by_, rank) == fenced_by_.end())
        return false;
    }
    return true;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within);
  while (!is_done()) {
    if (std::chrono::steady_clock::now() >= deadline)
      return fail(ErrorCode::timed_out, fmt::format("fencing node {}: not every process has answered", dead));
    fenced_.wait_for(lock, std::chrono::milliseconds(look_interval_ms));
  }
  return {};
}

// ---- Nodes that restart and come back ----------------------------------------------------------------

// Handles a `back` notice, which a restarted node sends, or the `here` notice that answers one: records the
// addresses and regions of the sender's current incarnation, and answers `back` with `here`.
void Connector::meet_again(const Notice& notice) {
  const NodeId node = notice.record.node;
  if (notice.record.incarnation != shared_->control->incarnation(node))
    return;  // the incarnation that sent the notice has died since
  const Peer* known = shared_->peers[node];
  if (known == nullptr || known->record.incarnation != notice.record.incarnation) {
    cut_ends_of(node);
    runs_ended_[node] = 0;
    if (auto ok = peers_->put(notice.record); !ok) {
      fmt::print(stderr, "{}\n", ok.error().message);
      return;
    }
    peers_->publish_senders();
    notice_workers();
  }
  if (notice.kind == Notice::Kind::back) {
    record_.qkey = shared_->qkey;
    send(node, {Notice::Kind::here, {}, record_.node, run_, record_});
    const std::uint64_t ended = runs_ended_[shared_->control->rank()];
    return ended == 0 ? void() : send(node, {Notice::Kind::clients_ended, {}, 0, ended, {}});
  }
  const std::scoped_lock lock(mutex_);
  run_of_others_ = std::max(run_of_others_, notice.number);
  met_.notify_all();
}

std::vector<std::uint32_t> Connector::unmet() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < shared_->control->ranks(); ++rank) {
    if (shared_->peers[rank] == nullptr && !shared_->control->is_lost(rank)) ranks.push_back(rank);
  }
  return ranks;
}

Result<std::uint64_t> Connector::return_to_all(Nanos within) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(within);
  for (;;) {
    const std::vector<std::uint32_t> missing = unmet();
    if (missing.empty()) break;
    if (std::chrono::steady_clock::now() >= deadline) {
      return fail(ErrorCode::timed_out, fmt::format("coming back: no answer within {} from node {}",
                                                    format_duration(within), fmt::join(missing, ", ")));
    }
    for (const std::uint32_t rank : missing) send(rank, {Notice::Kind::back, {}, record_.node, 0, record_});
    std::unique_lock lock(mutex_);
    met_.wait_for(lock, std::chrono::nanoseconds(ask_interval));
  }
  const std::scoped_lock lock(mutex_);
  return run_of_others_;
}

void Connector::send(std::uint32_t to, const Notice& notice) {
  if (shared_->control == nullptr || to == shared_->control->rank()) {
    deliver(to, to_text(notice));
  } else {
    shared_->control->send(to, to_text(notice));
  }
}

void Connector::clients_ended(std::uint64_t run) {
  const Notice notice{Notice::Kind::clients_ended, {}, 0, run, {}};
  for (std::uint32_t rank = 0; rank < runs_ended_.size(); ++rank) send(rank, notice);
}

std::vector<std::uint32_t> Connector::still_running(std::uint64_t run) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < runs_ended_.size(); ++rank) {
    const auto node = static_cast<NodeId>(rank);
    if (!is_local(node) && !shared_->is_lost(node) && runs_ended_[rank] < run) ranks.push_back(rank);
  }
  return ranks;
}

void Connector::await_others(std::uint64_t run, Nanos within) {
  std::unique_lock lock(mutex_);
  run_ended_.wait_for(lock, std::chrono::nanoseconds(within), [&] { return still_running(run).empty(); });
}

std::map<std::string, double> Connector::counters() const {
  const auto number = [](const std::atomic<std::uint64_t>& count) {
    return static_cast<double>(count.load());
  };
  std::map<std::string, double> all = {{"verbs.connects", number(connects_)},
                                       {"verbs.refusals", number(refusals_)},
                                       {"verbs.mends", number(reconnects_)},
                                       {"verbs.events", number(events_)},
                                       {"verbs.bad_messages", number(bad_messages_)}};
  const std::scoped_lock lock(mutex_);
  for (const auto& [event, count] : named_events_)
    all[fmt::format("verbs.events.{}", event)] = static_cast<double>(count);
  return all;
}

}  // namespace loch::fabric::verbs
