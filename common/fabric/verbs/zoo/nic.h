// The objects that libibverbs hands out, as the emulation makes them, and the NIC that executes their
// requests. The control path and the data path are not separated here: this is a test instrument, not a fast
// device.
//
// Locks: a queue pair has one lock for its sending half and one for its receiving half. The thread that
// posts holds the sender's send_mutex while it takes the target's receive_mutex; no thread takes a send_mutex
// while it holds a receive_mutex.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/fabric/verbs/zoo/counters.h"
#include "common/fabric/verbs/zoo/model.h"
#include "common/fabric/verbs/zoo/slots.h"

namespace loch::fabric::verbs::zoo {

using Nanos = std::int64_t;
[[nodiscard]] Nanos now();

inline constexpr std::uint32_t psn_mask = (1u << 24) - 1;
inline constexpr std::uint32_t grh_bytes = 40;

// One entry of the list that ibv_get_device_list returns.
struct Device : ibv_device {
  DeviceModel model;
  std::uint16_t number = 0;  // index in the machine's list of devices
  Counters counters;
  std::atomic<std::uint64_t> well = 0;  // number of its requests that succeeded
};

// An open device. The program gets a pointer to `verbs.context`.
struct Nic {
  verbs_context verbs{};
  Device* device = nullptr;
  std::atomic<int> objects = 0;  // number of live domains (of any kind) and completion queues
  std::mutex events_mutex;
  std::vector<ibv_async_event> events;  // asynchronous events that the program has not fetched yet
  std::vector<ibv_gid_entry> gids;      // by GID index
  std::uint16_t lid = 0;
  std::mutex atomics_mutex;
  std::atomic<bool> is_down = false;  // whether an event has reported that the port is not active
  [[nodiscard]] const DeviceModel& model() const { return device->model; }
};
[[nodiscard]] Nic& nic_of(ibv_context* context);

struct Domain : ibv_pd {
  // for a parent domain, the protection domain that it extends; else the domain itself
  Domain* root = nullptr;
  std::atomic<int> users = 0;
};

struct Region : ibv_mr {
  Domain* domain = nullptr;
  unsigned access = 0;
};

struct QueuePair;

struct Completion {
  ibv_wc wc{};
  QueuePair* sender = nullptr;  // the queue pair whose request completed; null: a receive completed
  // polling this completion frees the send queue slots of the requests that are numbered below this
  std::uint32_t retires = 0;
};

struct CompletionQueue : ibv_cq_ex {
  std::atomic<int> users = 0;
  std::mutex ring_mutex;
  std::vector<Completion> ring;
  std::uint64_t head = 0, tail = 0;
  std::atomic<std::uint64_t> count = 0;
  bool has_overrun = false;
  Completion current;  // the completion that ibv_start_poll or ibv_next_poll reached
};
void push(CompletionQueue& queue, const Completion& completion);
// Removes the completions of a queue pair that is reset or destroyed.
void clean(CompletionQueue& queue, const QueuePair& of);
[[nodiscard]] int poll(CompletionQueue& queue, int most, ibv_wc* to);
[[nodiscard]] bool pop(CompletionQueue& queue, Completion& to);

struct Receive {
  std::uint64_t id = 0;
  std::vector<ibv_sge> slices;
};

struct ReceiveQueue {
  std::mutex ring_mutex;
  std::vector<Receive> ring;
  std::uint32_t head = 0, tail = 0;
  std::uint32_t slices_most = 1;
  void open(std::uint32_t depth, std::uint32_t slices);
  [[nodiscard]] int add(const ibv_recv_wr& request);  // returns 0 or an errno
  [[nodiscard]] bool take(Receive& to);
  [[nodiscard]] bool is_empty();
};

struct SharedReceives : ibv_srq {
  ReceiveQueue queue;
  std::atomic<int> users = 0;
};

struct AddressHandle : ibv_ah {
  ibv_ah_attr path{};
};

// The network address of a port: the number of its process, and of the device in that process.
struct Place {
  std::uint16_t process = 0, device = 0;
  bool exists = false;  // false: no port of this subnet has the address
  bool operator==(const Place&) const = default;
};

struct SendRequest {
  std::uint64_t id = 0;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  unsigned flags = 0;
  __be32 immediate = 0;
  std::uint64_t address = 0, compare = 0, swap = 0;
  std::uint32_t rkey = 0;
  std::vector<ibv_sge> slices;
  std::vector<std::byte> inline_data;
  // The destination of a UD request.
  ibv_ah_attr path{};
  Domain* path_domain = nullptr;
  std::uint32_t to_qpn = 0, to_qkey = 0;
  Nanos due = 0;
  bool is_resent = false;  // whether the first transmission of the request was counted as lost
};

// A WRITE that the target's NIC has acknowledged and holds back instead of placing it in memory at once.
struct Landing {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::vector<std::byte> data;
  Nanos due = 0;  // time at which the WRITE is placed at the latest
  bool is_overtaken = false;
};

struct QueuePair : ibv_qp_ex {
  Nic* nic = nullptr;
  Domain* domain = nullptr;
  ibv_qp_cap cap{};
  bool signals_all = false;
  bool is_extended = false;
  // The queue pair's state, including an error state that the NIC set; qp_base.state is the state that the
  // program set last.
  std::atomic<ibv_qp_state> at{IBV_QPS_RESET};
  // Attributes set by ibv_modify_qp, which holds both send_mutex and receive_mutex.
  ibv_qp_attr attributes{};
  Place peer;

  std::mutex send_mutex;
  std::vector<SendRequest> ring;
  // Numbers of requests, counted from 0 at each RESET. Requests below `acked` are complete; those from
  // `acked` up to `sent` were sent and await replies; those from `sent` up to `posted` have not been sent.
  std::uint32_t posted = 0, sent = 0, acked = 0;
  std::atomic<std::uint32_t> retired = 0;
  Nanos wait_until = 0;       // no request is sent before this time
  Nanos answer_by = 0;        // deadline for the reply to the oldest request; 0: no reply is awaited
  bool is_looked_at = false;  // whether the NIC's thread is going to compare the deadline with the clock
  int tries_left = 0, ready_tries_left = 0;
  // The first `built` elements: requests that ibv_wr_* calls have built since ibv_wr_start and
  // ibv_wr_complete has not posted yet. Elements are used again, so that their vectors need no new memory.
  std::vector<SendRequest> building;
  std::size_t built = 0;
  bool is_building =
      false;  // whether ibv_wr_start was called, and neither ibv_wr_complete nor ibv_wr_abort since
  bool lacks_data = false;  // whether no call has set the data of the last built request yet

  std::mutex receive_mutex;
  ReceiveQueue receives;
  std::uint32_t expected = 0;    // the PSN of the next request to be executed
  std::deque<Landing> landings;  // WRITEs that are held back, in the order of their requests

  std::mutex events_mutex;
  std::uint32_t events_fetched = 0, events_acked = 0;
  [[nodiscard]] bool is_reliable() const { return qp_base.qp_type == IBV_QPT_RC; }
  [[nodiscard]] bool is_datagram() const { return qp_base.qp_type == IBV_QPT_UD; }
};

// ---- Requests and how they are executed ----------------------------------------------------------

struct Request {
  std::uint32_t to_qpn = 0, from_qpn = 0;
  Place to, from;
  ibv_qp_type type = IBV_QPT_RC;
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::uint32_t psn = 0, number = 0;
  __be32 immediate = 0;
  std::uint64_t address = 0, compare = 0, swap = 0;
  std::uint32_t rkey = 0, length = 0, qkey = 0;
  std::uint16_t pkey = 0, slid = 0;
  bool is_global = false, loses_tail = false;
  ibv_gid sgid{}, dgid{};
};

enum class Answer : std::uint8_t { done, none, not_ready, access, invalid, operation };

struct Reply {
  std::uint32_t to_qpn = 0, number = 0, psn = 0;
  Answer answer = Answer::none;
  std::uint8_t not_ready_timer = 0;
};

// Executes a request on its target queue pair. `back` gets the data that a READ or an atomic returns.
[[nodiscard]] Reply respond(const Request& request, std::span<const std::byte> data,
                            std::vector<std::byte>& back);

// Sends, in order, the posted requests whose delay has passed; in the error state, flushes the send queue.
// Called under send_mutex.
void advance(QueuePair& qp);
// Handles the reply to the oldest request. Called under send_mutex.
void take(QueuePair& qp, const Reply& reply, std::span<const std::byte> back);
// Retries the oldest request if its deadline has passed without a reply. Called under send_mutex.
void check_deadline(QueuePair& qp);
// Moves the queue pair to the error state and flushes its posted receives; from now on it refuses incoming
// requests. Called under receive_mutex. settle() flushes the sending half later.
void break_receiver(QueuePair& qp, ibv_event_type event);
void flush_receives(QueuePair& qp);
// Places the WRITEs that were held back and are due. Takes receive_mutex.
void land_due(QueuePair& qp);

// ---- Memory ----------------------------------------------------------------------------------------

struct Access {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  unsigned needs = 0;  // access flags, all of which the region must have
  const Domain* domain = nullptr;
};
// The region with the key of the access, pinned so that it cannot be removed meanwhile, if the region permits
// the access; else an empty pin.
[[nodiscard]] Slots<Region>::Pin find_region(const Access& access);
void place(const DeviceModel& model, std::uint64_t address, std::span<const std::byte> data);
void fetch(const DeviceModel& model, std::uint64_t address, std::span<std::byte> to);
// Like place() and fetch(), but for the target's memory of a WRITE or READ: in units of
// DeviceModel::write_unit or unit bytes, with pauses between them, if these are set.
void place_at_target(const DeviceModel& model, std::uint64_t address, std::span<const std::byte> data);
void fetch_at_target(const DeviceModel& model, std::uint64_t address, std::span<std::byte> to);
// Lets other threads run, for at least DeviceModel::pause_ns.
void pause(const DeviceModel& model);
// gather() reads the memory of a request's slices, scatter() writes to slices. Both check permission and
// return false if an access is not permitted.
[[nodiscard]] bool gather(const QueuePair& qp, const SendRequest& request, std::vector<std::byte>& to);
[[nodiscard]] bool scatter(const QueuePair& qp, std::span<const ibv_sge> slices,
                           std::span<const std::byte> data);

}  // namespace loch::fabric::verbs::zoo
