// The responder's side of the emulated NIC: the checks before memory is touched, and the reply.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

#include "common/fabric/verbs/zoo/hub.h"
#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {
namespace {

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
bool has_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool takes_receive(ibv_wr_opcode opcode) { return opcode == IBV_WR_SEND || has_immediate(opcode); }

// Whether two P_Keys name the same partition and at least one is a full member of it (highest bit).
bool share_partition(std::uint16_t one, std::uint16_t other) {
  return (one & 0x7fff) != 0 && (one & 0x7fff) == (other & 0x7fff) && ((one | other) & 0x8000) != 0;
}

// Whether the queue pair accepts the request: its state, transport, device and partition, and the QKey (UD)
// or the sender (RC, UC) must be right. A request that is not accepted gets no reply.
bool accepts(const QueuePair& qp, const Request& request) {
  const ibv_qp_state state = qp.at.load(std::memory_order_acquire);
  if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD) return false;
  if (qp.qp_base.qp_type != request.type || qp.nic->device->number != request.to.device) return false;
  if (!share_partition(qp.nic->model().pkeys[qp.attributes.pkey_index], request.pkey)) return false;
  if (qp.is_datagram()) return qp.attributes.qkey == request.qkey;
  return qp.attributes.dest_qp_num == request.from_qpn && qp.peer == request.from;
}

unsigned right_for(ibv_wr_opcode opcode) {
  if (opcode == IBV_WR_RDMA_READ) return IBV_ACCESS_REMOTE_READ;
  return is_atomic(opcode) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

// An atomic that is not atomic: reads the word, pauses and writes it. With Scope::nic, a lock makes it atomic
// against others of the same device.
std::uint64_t swap_word_by_parts(const QueuePair& qp, std::uint64_t address, const Request& request) {
  const DeviceModel& model = qp.nic->model();
  std::unique_lock lock(qp.nic->atomics_mutex, std::defer_lock);
  if (model.scope == Scope::nic) lock.lock();
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(address));
  const std::uint64_t old = word.load(std::memory_order_acquire);
  pause(model);
  if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    word.store(old + request.compare, std::memory_order_release);
  else if (old == request.compare)
    word.store(request.swap, std::memory_order_release);
  return old;
}

std::uint64_t swap_word(const QueuePair& qp, std::uint64_t address, const Request& request) {
  if (qp.nic->model().scope != Scope::node) return swap_word_by_parts(qp, address, request);
  const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(address));
  if (request.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    return word.fetch_add(request.compare, std::memory_order_acq_rel);
  std::uint64_t seen = request.compare;
  word.compare_exchange_strong(seen, request.swap, std::memory_order_acq_rel, std::memory_order_acquire);
  return seen;
}

// ---- WRITEs that are visible later than they complete ------------------------------------------------

// For how many ns a WRITE that may be overtaken is held back, waiting for a request that overtakes it.
constexpr Nanos overtaken_for = 50'000;

Kind kind_of(ibv_wr_opcode opcode) {
  if (is_atomic(opcode)) return Kind::atomic;
  if (opcode == IBV_WR_RDMA_READ) return Kind::read;
  return opcode == IBV_WR_RDMA_WRITE ? Kind::write : Kind::send;
}

void land(QueuePair& qp, Nanos due_by) {
  while (!qp.landings.empty() && qp.landings.front().due <= due_by) {
    const Landing& first = qp.landings.front();
    const Access access{first.rkey, first.address, first.data.size(), IBV_ACCESS_REMOTE_WRITE, qp.domain};
    // A WRITE is dropped if the program has deregistered its target memory since it was held back.
    if (const auto region = find_region(access)) place_at_target(qp.nic->model(), first.address, first.data);
    qp.landings.pop_front();
  }
}

constexpr Nanos whenever = std::numeric_limits<Nanos>::max();

// Holds a WRITE back, and has the NIC's thread place it later. Returns false if it is to be placed at once.
bool hold(QueuePair& qp, const Request& request, std::span<const std::byte> data) {
  const DeviceModel& model = qp.nic->model();
  if (!holds_writes(model) || !qp.is_reliable() || kind_of(request.opcode) != Kind::write) return false;
  Nanos due = now();
  if (model.late_us != 0) {
    if (qp.landings.empty() && hub().happens(0.5)) return false;
    due += static_cast<Nanos>(hub().random() % (std::uint64_t{model.late_us} * 1000));
  } else {
    const auto likely = std::ranges::max(model.overtaken);
    // A WRITE that overtakes another one is placed at once and not held back itself.
    if (!qp.landings.empty() || !hub().happens(likely)) return false;
    due += overtaken_for;
  }
  if (!qp.landings.empty()) due = std::max(due, qp.landings.back().due);
  qp.landings.push_back(
      {.address = request.address, .rkey = request.rkey, .data = {data.begin(), data.end()}, .due = due});
  hub().look_later(qp.qp_base.qp_num, due);
  return true;
}

// On a device whose WRITEs become visible late (late_us), a READ sees WRITEs that the CPU cannot see yet:
// copies the bytes of WRITEs that are held back into what was read.
void overlay_landings(const QueuePair& qp, std::uint64_t address, std::span<std::byte> read) {
  if (qp.nic->model().late_us == 0) return;
  for (const Landing& each : qp.landings) {
    const std::uint64_t from = std::max(address, each.address);
    const std::uint64_t to = std::min(address + read.size(), each.address + each.data.size());
    if (from < to)
      std::memcpy(read.data() + (from - address), each.data.data() + (from - each.address), to - from);
  }
}

// Called before `request` is executed: places the earlier WRITEs that are held back and that it does not
// overtake.
void land_before(QueuePair& qp, const Request& request) {
  if (qp.landings.empty()) return;
  const DeviceModel& model = qp.nic->model();
  const Kind kind = kind_of(request.opcode);
  const bool is_late = model.late_us != 0 && (kind == Kind::read || kind == Kind::write);
  const bool overtakes = model.late_us == 0 && model.overtaken[static_cast<std::size_t>(kind)] > 0;
  // At most one request overtakes a WRITE that is held back.
  if (!is_late && (!overtakes || qp.landings.front().is_overtaken)) return land(qp, whenever);
  qp.landings.front().is_overtaken = true;
}

// Called after a request was executed: places the WRITEs that a READ or an atomic has overtaken, because its
// result shows that already.
void land_behind(QueuePair& qp, const Request& request) {
  const Kind kind = kind_of(request.opcode);
  const bool is_late = qp.nic->model().late_us != 0;
  if (!is_late && (kind == Kind::read || kind == Kind::atomic)) land(qp, whenever);
}

// Executes a READ, a WRITE or an atomic on the target's memory. `back` gets the bytes that a READ read, or
// the old word of an atomic.
Answer reach_memory(QueuePair& qp, const Request& request, std::span<const std::byte> data,
                    std::vector<std::byte>& back) {
  const unsigned right = right_for(request.opcode);
  if ((qp.attributes.qp_access_flags & right) == 0) return Answer::invalid;
  const std::uint64_t length = is_atomic(request.opcode) ? 8 : request.length;
  if (length == 0) return Answer::done;  // the rkey of a request of 0 bytes is not checked
  if (is_atomic(request.opcode) && request.address % 8 != 0) return Answer::invalid;
  const auto region = find_region({request.rkey, request.address, length, right, qp.domain});
  if (!region) return Answer::access;
  const DeviceModel& model = qp.nic->model();
  if (request.opcode == IBV_WR_RDMA_READ) {
    back.resize(length);
    fetch_at_target(model, request.address, back);
    overlay_landings(qp, request.address, back);
  } else if (is_atomic(request.opcode)) {
    std::uint64_t old = swap_word(qp, request.address, request);
    if (model.reverses_replies) old = std::byteswap(old);
    back.resize(8);
    std::memcpy(back.data(), &old, 8);
  } else {
    // Of a UC WRITE that lost packets, the first half is placed.
    const std::size_t whole = data.size() - (request.loses_tail ? data.size() / 2 : 0);
    if (!hold(qp, request, data.first(whole))) place_at_target(model, request.address, data.first(whole));
  }
  return Answer::done;
}

ReceiveQueue& receives_of(QueuePair& qp) {
  return qp.qp_base.srq != nullptr ? static_cast<SharedReceives*>(qp.qp_base.srq)->queue : qp.receives;
}

// The content of a datagram's receive buffer: 40 bytes of header, then `data`. The header is the global
// routing header; on RoCE v2 over IPv4, its last 20 bytes are the IPv4 header.
std::vector<std::byte> with_header(const Request& request, std::span<const std::byte> data) {
  std::vector<std::byte> all(grh_bytes + data.size());
  if (request.is_global) {
    const bool is_ipv4 = request.sgid.raw[10] == 0xff && request.sgid.raw[11] == 0xff;
    if (is_ipv4) {
      all[20] = std::byte{0x45};
      std::memcpy(all.data() + 32, request.sgid.raw + 12, 4);
      std::memcpy(all.data() + 36, request.dgid.raw + 12, 4);
    } else {
      all[0] = std::byte{0x60};
      std::memcpy(all.data() + 8, request.sgid.raw, 16);
      std::memcpy(all.data() + 24, request.dgid.raw, 16);
    }
  }
  if (!data.empty()) std::memcpy(all.data() + grh_bytes, data.data(), data.size());
  return all;
}

// Completes `receive` for a SEND or a WRITE with immediate data, and copies the data of a SEND into the
// buffers of `receive`.
Answer deliver(QueuePair& qp, const Request& request, const Receive& receive,
               std::span<const std::byte> data) {
  Completion completion;
  ibv_wc& wc = completion.wc;
  wc.wr_id = receive.id;
  wc.status = IBV_WC_SUCCESS;
  wc.qp_num = qp.qp_base.qp_num;
  wc.src_qp = request.from_qpn;
  wc.opcode = request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = request.length;
  wc.slid = request.slid;
  if (has_immediate(request.opcode)) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = request.immediate;
  }
  Answer answer = Answer::done;
  if (request.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) {
    std::vector<std::byte> headed;
    if (qp.is_datagram()) {
      headed = with_header(request, data);
      data = headed;
      wc.byte_len += grh_bytes;
      if (request.is_global) wc.wc_flags |= IBV_WC_GRH;
    }
    std::uint64_t room = 0;
    for (const ibv_sge& slice : receive.slices) room += slice.length;
    if (room < data.size()) {
      wc.status = IBV_WC_LOC_LEN_ERR;
      answer = Answer::invalid;
    } else if (!scatter(qp, receive.slices, data)) {
      wc.status = IBV_WC_LOC_PROT_ERR;
      answer = Answer::operation;
    }
  }
  push(*reinterpret_cast<CompletionQueue*>(qp.qp_base.recv_cq), completion);
  return answer;
}

Answer execute(QueuePair& qp, const Request& request, std::span<const std::byte> data,
               std::vector<std::byte>& back) {
  Receive receive;
  if (takes_receive(request.opcode)) {
    if (request.loses_tail) return Answer::none;
    if (receives_of(qp).is_empty()) return Answer::not_ready;
  }
  if (request.opcode != IBV_WR_SEND && request.opcode != IBV_WR_SEND_WITH_IMM) {
    const Answer answer = reach_memory(qp, request, data, back);
    if (answer != Answer::done || !takes_receive(request.opcode)) return answer;
  }
  if (!receives_of(qp).take(receive))
    return Answer::not_ready;  // another queue pair took the last RECV of the shared receive queue
  return deliver(qp, request, receive, data);
}

}  // namespace

void flush_receives(QueuePair& qp) {
  if (qp.qp_base.srq != nullptr) return;
  Receive receive;
  while (qp.receives.take(receive)) {
    Completion completion;
    completion.wc.wr_id = receive.id;
    completion.wc.status = IBV_WC_WR_FLUSH_ERR;
    completion.wc.opcode = IBV_WC_RECV;
    completion.wc.qp_num = qp.qp_base.qp_num;
    push(*reinterpret_cast<CompletionQueue*>(qp.qp_base.recv_cq), completion);
  }
}

void land_due(QueuePair& qp) {
  const std::scoped_lock lock(qp.receive_mutex);
  land(qp, now());
}

void break_receiver(QueuePair& qp, ibv_event_type type) {
  qp.at.store(IBV_QPS_ERR, std::memory_order_release);
  flush_receives(qp);
  ibv_async_event event{};
  event.element.qp = &qp.qp_base;
  event.event_type = type;
  raise(*qp.nic, event);
  if (qp.qp_base.srq != nullptr) {
    event.event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
    raise(*qp.nic, event);
  }
  hub().flush_later(qp.qp_base.qp_num);
}

Reply respond(const Request& request, std::span<const std::byte> data, std::vector<std::byte>& back) {
  back.clear();
  Reply reply{request.from_qpn, request.number, request.psn, Answer::none, 0};
  const auto found = hub().queue_pairs.find(request.to_qpn);
  if (!found || found->qp_base.qp_num != request.to_qpn) return reply;
  QueuePair& qp = *found;
  const std::scoped_lock lock(qp.receive_mutex);
  if (!accepts(qp, request)) return reply;
  // An RC request is executed only if its PSN is the expected one. A lower PSN was executed before; a higher
  // one waits until the requests lost before it are sent again.
  if (qp.is_reliable() && request.psn != qp.expected) return reply;
  reply.not_ready_timer = qp.attributes.min_rnr_timer;
  land_before(qp, request);
  reply.answer = execute(qp, request, data, back);
  land_behind(qp, request);
  const bool is_done = reply.answer == Answer::done;
  if (is_done && qp.is_reliable()) qp.expected = (qp.expected + 1) & psn_mask;
  const bool is_refused =
      reply.answer == Answer::access || reply.answer == Answer::invalid || reply.answer == Answer::operation;
  if (is_refused)
    break_receiver(qp, reply.answer == Answer::access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
  return reply;
}

}  // namespace loch::fabric::verbs::zoo
