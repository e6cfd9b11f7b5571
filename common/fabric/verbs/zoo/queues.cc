// Completion queues and receive queues of the emulated NIC.
#include <algorithm>
#include <cerrno>

#include "common/fabric/verbs/zoo/hub.h"
#include "common/fabric/verbs/zoo/nic.h"

namespace loch::fabric::verbs::zoo {

void push(CompletionQueue& queue, const Completion& completion) {
  {
    const std::scoped_lock lock(queue.ring_mutex);
    if (queue.has_overrun) return;
    if (queue.tail - queue.head < queue.ring.size()) {
      queue.ring[queue.tail++ % queue.ring.size()] = completion;
      queue.count.store(queue.tail - queue.head, std::memory_order_relaxed);
      return;
    }
    queue.has_overrun = true;
    queue.count.store(queue.ring.size() + 1, std::memory_order_relaxed);
  }
  complain("a completion queue of %zu entries overran", queue.ring.size());
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = ibv_cq_ex_to_cq(&queue);
  raise(nic_of(queue.context), event);
}

void clean(CompletionQueue& queue, const QueuePair& of) {
  const std::scoped_lock lock(queue.ring_mutex);
  const std::size_t size = queue.ring.size();
  std::uint64_t kept = queue.head;
  for (std::uint64_t at = queue.head; at != queue.tail; ++at) {
    const Completion& one = queue.ring[at % size];
    if (one.wc.qp_num != of.qp_base.qp_num) queue.ring[kept++ % size] = one;
  }
  queue.tail = kept;
  if (!queue.has_overrun) queue.count.store(queue.tail - queue.head, std::memory_order_relaxed);
}

bool pop(CompletionQueue& queue, Completion& to) {
  if (queue.count.load(std::memory_order_relaxed) == 0) return false;
  const std::scoped_lock lock(queue.ring_mutex);
  if (queue.head == queue.tail) return false;
  to = queue.ring[queue.head++ % queue.ring.size()];
  if (!queue.has_overrun) queue.count.store(queue.tail - queue.head, std::memory_order_relaxed);
  if (to.sender != nullptr) to.sender->retired.store(to.retires, std::memory_order_relaxed);
  return true;
}

int poll(CompletionQueue& queue, int most, ibv_wc* to) {
  int count = 0;
  Completion one;
  while (count < most && pop(queue, one)) to[count++] = one.wc;
  if (count != 0 || queue.count.load(std::memory_order_relaxed) == 0) return count;
  const std::scoped_lock lock(queue.ring_mutex);
  return queue.has_overrun && queue.head == queue.tail ? -1 : 0;
}

void ReceiveQueue::open(std::uint32_t depth, std::uint32_t slices) {
  ring.resize(depth);
  slices_most = slices;
}

int ReceiveQueue::add(const ibv_recv_wr& request) {
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > slices_most) return EINVAL;
  const std::scoped_lock lock(ring_mutex);
  if (tail - head >= ring.size()) return ENOMEM;
  Receive& slot = ring[tail++ % ring.size()];
  slot.id = request.wr_id;
  slot.slices.assign(request.sg_list, request.sg_list + request.num_sge);
  return 0;
}

bool ReceiveQueue::take(Receive& to) {
  const std::scoped_lock lock(ring_mutex);
  if (head == tail) return false;
  std::swap(to, ring[head++ % ring.size()]);
  return true;
}

bool ReceiveQueue::is_empty() {
  const std::scoped_lock lock(ring_mutex);
  return head == tail;
}

}  // namespace loch::fabric::verbs::zoo
