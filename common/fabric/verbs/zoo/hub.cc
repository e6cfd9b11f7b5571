// The parts of the emulated NIC that belong to no single queue pair: timers, asynchronous events, messages
// between processes, injected failures, addresses.
#include "common/fabric/verbs/zoo/hub.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace loch::fabric::verbs::zoo {
namespace {

constexpr Nanos sleep_most = 100'000'000, look_most = 1'000'000, full_stream_wait = 50'000;

// A hash function that turns the values of a counter into random numbers: Steele, Lea, Flood, "Fast
// Splittable Pseudorandom Number Generators".
std::uint64_t mix(std::uint64_t word) {
  word += 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

}  // namespace

Nanos now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return Nanos{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void complain(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "zoo: %s\n", text);
}

// The state that all emulated devices share. It is never destroyed, because threads of the program may call
// verbs until the process exits.
Hub& hub() {
  static Hub* one = new Hub;
  return *one;
}

Hub::Hub() {
  const auto write_calls = [] {
    Hub& all = hub();
    std::FILE* file = all.settings.calls.empty() ? nullptr : std::fopen(all.settings.calls.c_str(), "we");
    if (file == nullptr) return;
    for (std::size_t i = 0; i < calls_count; ++i) {
      std::fprintf(file, "%s %llu\n", std::string(call_name(static_cast<Call>(i))).c_str(),
                   static_cast<unsigned long long>(all.calls_[i].load()));
    }
    std::fclose(file);
  };
  std::atexit(write_calls);
}

void Hub::configure() {
  const std::scoped_lock lock(control_mutex_);
  if (open_devices_ != 0) return;
  // LD_PRELOAD is removed because programs that this one starts, such as a sanitizer's symbolizer, need no
  // emulated NIC and may be unable to load a library that was built with a sanitizer. It is removed here and
  // not when the library is loaded, because programs that start this one (nice, valgrind) load the library
  // too and must pass the variable on.
  unsetenv("LD_PRELOAD");
  const char* given = std::getenv("LOCH_ZOO");
  const std::string text = given == nullptr ? "mlx5-ib" : given;
  if (text == read_) return;
  auto parsed = parse_settings(text);
  const auto refuse = [](const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    _exit(2);
  };
  if (!parsed) refuse(parsed.error());
  read_ = text;
  settings = std::move(*parsed);
  for (auto& count : calls_) count = 0;
  well_ = delivered_ = 0;
  if (const auto ok = wire.open(settings.net); !ok) refuse(ok.error());
  devices.clear();
  for (const DeviceModel& model : settings.devices) {
    auto device = std::make_unique<Device>();
    device->model = model;
    device->number = static_cast<std::uint16_t>(devices.size());
    device->node_type = model.node;
    device->transport_type = model.transport;
    std::strncpy(device->name, model.name, sizeof device->name - 1);
    std::snprintf(device->dev_name, sizeof device->dev_name, "uverbs%u", device->number);
    devices.push_back(std::move(device));
  }
  if (const auto ok = open_counters(); !ok) refuse(ok.error());
}

// Makes the files with the devices' error counters, if any were asked for. Each process has a folder of its
// own even if processes share an emulated network. LOCH_RDMA_SYSFS is set to the folder, so that the program
// reads its counters there.
std::expected<void, std::string> Hub::open_counters() {
  if (settings.counters.empty()) return {};
  const std::string folder =
      wire.is_open() ? settings.counters + "/" + std::to_string(wire.self()) : settings.counters;
  for (const auto& device : devices) {
    if (auto ok = device->counters.open(folder, device->model, settings.counter_start); !ok) return ok;
  }
  setenv("LOCH_RDMA_SYSFS", folder.c_str(), 0);
  return {};
}

void Hub::opened() {
  const std::scoped_lock lock(control_mutex_);
  if (open_devices_++ == 0 && (wire.is_open() || settings.events_per_second != 0)) start_thread();
}

void Hub::closed() {
  const std::scoped_lock lock(control_mutex_);
  if (--open_devices_ != 0 || !has_thread_) return;
  is_stopping_ = true;
  wire.wake();
  thread_.join();
  has_thread_ = is_stopping_ = false;
}

// Starts the emulated NIC's thread if it is not running. The caller holds control_mutex_, except for
// look_later(), which is never called while a device is opened or closed.
void Hub::start_thread() {
  if (has_thread_.exchange(true)) return;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "zoo nic");
    body();
  });
}

int Hub::fault(Call call) {
  const std::uint64_t n = calls_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Failure& failure : settings.failures) {
    if (failure.call == call && failure.n == n) return failure.reason;
  }
  return 0;
}

void Hub::went_well(const QueuePair& qp) {
  if (settings.raises.empty()) return;
  const std::size_t device = qp.nic->device->number;
  const std::uint64_t n = well_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t n_of_device = qp.nic->device->well.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const Raise& one : settings.raises) {
    if (one.device ? *one.device != device || one.n != n_of_device : one.n != n) continue;
    ibv_async_event event{};
    event.event_type = one.type;
    if (one.type == IBV_EVENT_PORT_ERR || one.type == IBV_EVENT_PORT_ACTIVE) {
      event.element.port_num = 1;
      qp.nic->is_down = one.type == IBV_EVENT_PORT_ERR;
    } else if (one.type == IBV_EVENT_CQ_ERR) {
      event.element.cq = qp.qp_base.send_cq;
    } else if (one.type != IBV_EVENT_DEVICE_FATAL) {
      event.element.qp = const_cast<ibv_qp*>(&qp.qp_base);
    }
    raise(*qp.nic, event);
  }
}

bool Hub::swallows() {
  return settings.swallow != 0 && delivered_.fetch_add(1, std::memory_order_relaxed) + 1 >= settings.swallow;
}

std::uint64_t Hub::random() {
  return mix(settings.seed ^ mix(draws_.fetch_add(1, std::memory_order_relaxed)));
}

bool Hub::happens(double probability) {
  return probability > 0 && static_cast<double>(random() >> 11) * 0x1p-53 < probability;
}

void Hub::look_later(std::uint32_t qpn, Nanos when) {
  bool is_first = false;
  {
    const std::scoped_lock lock(looks_mutex_);
    is_first = looks_.empty() || when < looks_.top().when;
    looks_.push({when, qpn});
  }
  start_thread();
  // The thread sleeps no longer than until the earliest time at which it has to look.
  if (is_first) wire.wake();
}

void Hub::flush_later(std::uint32_t qpn) {
  const std::scoped_lock lock(flushes_mutex_);
  flushes_.push_back(qpn);
  has_flushes_.store(true, std::memory_order_relaxed);
}

void Hub::settle() {
  while (has_flushes_.load(std::memory_order_relaxed)) {
    std::vector<std::uint32_t> all;
    {
      const std::scoped_lock lock(flushes_mutex_);
      all.swap(flushes_);
      has_flushes_.store(false, std::memory_order_relaxed);
    }
    for (const std::uint32_t qpn : all) {
      const auto qp = queue_pairs.find(qpn);
      if (!qp || qp->qp_base.qp_num != qpn) continue;
      const std::scoped_lock lock(qp->send_mutex);
      advance(*qp);
    }
  }
}

// ---- The NIC's thread ------------------------------------------------------------------------------

Nanos Hub::look() {
  for (;;) {
    Look next{};
    {
      const std::scoped_lock lock(looks_mutex_);
      if (looks_.empty()) return now() + sleep_most;
      next = looks_.top();
      if (next.when > now()) return next.when;
      looks_.pop();
    }
    const auto qp = queue_pairs.find(next.qpn);
    if (!qp || qp->qp_base.qp_num != next.qpn) continue;
    land_due(*qp);
    const std::scoped_lock lock(qp->send_mutex);
    check_deadline(*qp);
    advance(*qp);
  }
}

// Raises a harmless asynchronous event if the next one is due, `events_per_second` times a second, so that
// tests show whether a program survives events that it does not expect or never fetches.
void Hub::storm(Nanos at) {
  constexpr ibv_event_type types[] = {IBV_EVENT_PORT_ACTIVE,       IBV_EVENT_SM_CHANGE,
                                      IBV_EVENT_LID_CHANGE,        IBV_EVENT_PKEY_CHANGE,
                                      IBV_EVENT_CLIENT_REREGISTER, IBV_EVENT_GID_CHANGE};
  if (settings.events_per_second == 0 || at < next_event_) return;
  next_event_ = at + 1'000'000'000 / settings.events_per_second;
  raise_everywhere(types[random() % std::size(types)]);
}

void Hub::heed(const Wire::Message& message) {
  const Frame& frame = message.frame;
  if (!frame.is_reply) {
    std::vector<std::byte> back;
    const Reply reply = respond(frame.request, message.data, back);
    if (frame.request.type != IBV_QPT_RC || reply.answer == Answer::none) return;
    if (settings.reply_late_ns == 0) return wire.send(frame.from, reply, back);
    late_replies_.push_back(
        {now() + static_cast<Nanos>(settings.reply_late_ns), frame.from, reply, std::move(back)});
    return;
  }
  const auto qp = queue_pairs.find(frame.reply.to_qpn);
  if (!qp || qp->qp_base.qp_num != frame.reply.to_qpn) return;
  const std::scoped_lock lock(qp->send_mutex);
  take(*qp, frame.reply, message.data);
  advance(*qp);
}

void Hub::send_late_replies() {
  for (; !late_replies_.empty() && late_replies_.front().when <= now(); late_replies_.pop_front()) {
    const LateReply& late = late_replies_.front();
    wire.send(late.to, late.reply, late.data);
  }
}

void Hub::assist() {
  if (!wire.is_open()) return;
  wire.note_poll(now());
  const std::unique_lock lock(receive_mutex_, std::try_to_lock);
  if (!lock) return;
  while (wire.receive(message_)) heed(message_);
}

void Hub::body() {
  while (!is_stopping_) {
    const std::uint32_t seen = wire.bell();
    {
      const std::scoped_lock lock(receive_mutex_);
      while (wire.receive(message_)) heed(message_);
      send_late_replies();
    }
    Nanos until = look();
    if (!wire.flush()) until = std::min(until, now() + full_stream_wait);
    settle();
    const Nanos time = now();
    storm(time);
    if (settings.events_per_second != 0) until = std::min(until, next_event_);
    // A sender does not wake this thread while the program polls. So this thread wakes up from time to time
    // and looks for messages, in case the program has stopped polling.
    const Nanos most = wire.is_open() ? look_most : sleep_most;
    if (until > time) wire.sleep(seen, std::min(until - time, most));
  }
}

// ---- Events ------------------------------------------------------------------------------------------

void raise(Nic& nic, ibv_async_event event) {
  {
    const std::scoped_lock lock(nic.events_mutex);
    nic.events.push_back(event);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(nic.verbs.context.async_fd, &one, sizeof one);
}

void Hub::raise_everywhere(ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = 1;
  const std::scoped_lock lock(nics_mutex_);
  for (Nic* nic : nics_) raise(*nic, event);
}

void Hub::add(Nic* nic) {
  const std::scoped_lock lock(nics_mutex_);
  nics_.push_back(nic);
}

void Hub::remove(Nic* nic) {
  const std::scoped_lock lock(nics_mutex_);
  std::erase(nics_, nic);
}

// ---- LIDs and GIDs of the ports ----------------------------------------------------------------------

// Gives the port its LID and GIDs. The last two bytes of a GID hold the device's and the process's number;
// the bytes before them name the subnet.
void set_addresses(Nic& nic) {
  const std::uint16_t process = hub().wire.self(), device = nic.device->number;
  const DeviceModel& model = nic.model();
  nic.lid = 0;
  const auto add = [&](std::uint32_t type, std::initializer_list<std::uint8_t> prefix) {
    ibv_gid_entry entry{};
    std::copy(prefix.begin(), prefix.end(), entry.gid.raw);
    entry.gid.raw[14] = static_cast<std::uint8_t>(device);
    entry.gid.raw[15] = static_cast<std::uint8_t>(process + 1);
    entry.gid_index = static_cast<std::uint32_t>(nic.gids.size());
    entry.port_num = 1;
    entry.gid_type = type;
    entry.ndev_ifindex = model.link == IBV_LINK_LAYER_ETHERNET ? device + 2u : 0;
    nic.gids.push_back(entry);
  };
  if (model.link != IBV_LINK_LAYER_ETHERNET) {
    if (model.link == IBV_LINK_LAYER_INFINIBAND)
      nic.lid = static_cast<std::uint16_t>(1 + 8 * process + device);
    return add(IBV_GID_TYPE_IB, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x0c, 0x42, 0xa1, 0x03, 0, 0});
  }
  const auto add_network = [&](std::uint8_t network) {
    for (const std::uint32_t type :
         {std::uint32_t{IBV_GID_TYPE_ROCE_V1}, std::uint32_t{IBV_GID_TYPE_ROCE_V2}})
      add(type, {0xfe, 0x80, 0, 0, 0, 0, 0, network, 0x0e, 0x42, 0xa1, 0xff, 0xfe, 0});
    for (const std::uint32_t type :
         {std::uint32_t{IBV_GID_TYPE_ROCE_V1}, std::uint32_t{IBV_GID_TYPE_ROCE_V2}})
      add(type, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, network});
  };
  if (model.has_vlan_gid) add_network(7);
  add_network(1);
}

Place find_place(const Nic& from, const ibv_ah_attr& path) {
  if (path.is_global == 0) {
    if (from.lid == 0 || path.dlid == 0) return {};
    const auto at = static_cast<std::uint16_t>(path.dlid - 1);
    return {static_cast<std::uint16_t>(at / 8), static_cast<std::uint16_t>(at % 8), true};
  }
  if (path.grh.sgid_index >= from.gids.size()) return {};
  const ibv_gid_entry& source = from.gids[path.grh.sgid_index];
  const std::uint8_t* to = path.grh.dgid.raw;
  const bool is_subnet = std::memcmp(source.gid.raw, to, 14) == 0;
  if (!is_subnet || to[15] == 0) return {};
  return {static_cast<std::uint16_t>(to[15] - 1), to[14], true};
}

}  // namespace loch::fabric::verbs::zoo
