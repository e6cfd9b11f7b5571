// The objects that libibverbs hands out, as the zoo makes them, and the NIC that moves their work. Control
// path and data path are one here: this is an instrument, not a fast device.
//
// Locks: a queue pair has one for its sending half and one for its receiving half. Who posts holds the
// sender's and takes the target's receiving half; nobody takes a sending half while holding a receiving one.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "common/fabric/verbs/zoo/model.h"
#include "common/fabric/verbs/zoo/slots.h"

namespace loch::fabric::verbs::zoo {

using Nanos = std::int64_t;
[[nodiscard]] Nanos now();

inline constexpr std::uint32_t psn_mask = (1u << 24) - 1;
inline constexpr std::uint32_t grh_bytes = 40;

// A device of the list.
struct Device : ibv_device {
  DeviceModel model;
  std::uint16_t number = 0;  // in the machine
};

// An open device. The program sees `verbs.context`.
struct Nic {
  verbs_context verbs{};
  Device* device = nullptr;
  std::atomic<int> objects = 0;  // protection domains and completion queues
  std::mutex events_mutex;
  std::vector<ibv_async_event> events;  // not fetched yet
  std::vector<ibv_gid_entry> gids;      // by index
  std::uint16_t lid = 0;
  [[nodiscard]] const DeviceModel& model() const { return device->model; }
};
[[nodiscard]] Nic& nic_of(ibv_context* context);

struct Domain : ibv_pd {
  Domain* root = nullptr;  // itself; of a parent domain, the domain that it extends
  std::atomic<int> users = 0;
};

struct Region : ibv_mr {
  Domain* domain = nullptr;
  unsigned access = 0;
};

struct QueuePair;

struct Completion {
  ibv_wc wc{};
  QueuePair* sender = nullptr;  // null: of a receive
  std::uint32_t retires = 0;    // its requests before this number have left the send queue
};

struct CompletionQueue : ibv_cq_ex {
  std::atomic<int> users = 0;
  std::mutex ring_mutex;
  std::vector<Completion> ring;
  std::uint64_t head = 0, tail = 0;
  std::atomic<std::uint64_t> count = 0;
  bool has_overrun = false;
  Completion current;  // of an extended poll
};
void push(CompletionQueue& queue, const Completion& completion);
// Takes away what a queue pair has left there.
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
  [[nodiscard]] int add(const ibv_recv_wr& request);  // an errno
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

// A port as others reach it: the process's place in the network, and the device.
struct Place {
  std::uint16_t process = 0, device = 0;
  bool exists = false;  // false: no port has that address, or none on this subnet
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
  // UD
  ibv_ah_attr path{};
  Domain* path_domain = nullptr;
  std::uint32_t to_qpn = 0, to_qkey = 0;
  Nanos due = 0;
};

struct QueuePair : ibv_qp_ex {
  Nic* nic = nullptr;
  Domain* domain = nullptr;
  ibv_qp_cap cap{};
  bool signals_all = false;
  bool is_extended = false;
  std::atomic<ibv_qp_state> at{IBV_QPS_RESET};  // qp_base.state is what the program's own calls have left
  // Set by ibv_modify_qp, which holds both locks.
  ibv_qp_attr attributes{};
  Place peer;

  std::mutex send_mutex;
  std::vector<SendRequest> ring;
  // Requests are numbered from 0 at each RESET: `acked` of them are done, `sent` executed or on their way.
  std::uint32_t posted = 0, sent = 0, acked = 0;
  std::atomic<std::uint32_t> retired = 0;
  Nanos wait_until = 0;  // a receiver was not ready, or did not answer
  Nanos answer_by = 0;   // 0: nothing is on its way
  int tries_left = 0, ready_tries_left = 0;
  std::vector<SendRequest> building;  // between wr_start and wr_complete
  int build_reason = 0;

  std::mutex receive_mutex;
  ReceiveQueue receives;
  std::uint32_t expected = 0;  // the PSN of the next request

  std::mutex events_mutex;
  std::uint32_t events_fetched = 0, events_acked = 0;
  [[nodiscard]] bool is_reliable() const { return qp_base.qp_type == IBV_QPT_RC; }
  [[nodiscard]] bool is_datagram() const { return qp_base.qp_type == IBV_QPT_UD; }
};

// ---- Requests and what comes of them -------------------------------------------------------------

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

// Executes a request at its target; `back` gets what a READ or an atomic returns.
[[nodiscard]] Reply respond(const Request& request, std::span<const std::byte> data,
                            std::vector<std::byte>& back);

// Under send_mutex: executes what is due, as far as it goes; flushes in the error state.
void advance(QueuePair& qp);
// Under send_mutex: a reply has come.
void take(QueuePair& qp, const Reply& reply, std::span<const std::byte> back);
// Under send_mutex: the deadline of the oldest request may have passed.
void check_deadline(QueuePair& qp);
// To the error state, under receive_mutex: incoming requests are refused, posted receives flushed. The
// sending half follows when settle() runs.
void break_receiver(QueuePair& qp, ibv_event_type event);
void flush_receives(QueuePair& qp);

// ---- Memory ----------------------------------------------------------------------------------------

struct Access {
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  unsigned needs = 0;  // access flags, all of them
  const Domain* domain = nullptr;
};
// The region, pinned, where the access is permitted.
[[nodiscard]] Slots<Region>::Pin find_region(const Access& access);
void place(const DeviceModel& model, std::uint64_t address, std::span<const std::byte> data);
void fetch(const DeviceModel& model, std::uint64_t address, std::span<std::byte> to);
// Lists of slices. Permission was checked: false, where it is not given.
[[nodiscard]] bool gather(const QueuePair& qp, const SendRequest& request, std::vector<std::byte>& to);
[[nodiscard]] bool scatter(const QueuePair& qp, std::span<const ibv_sge> slices,
                           std::span<const std::byte> data);

}  // namespace loch::fabric::verbs::zoo
