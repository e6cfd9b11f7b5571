// The control path of the emulated libibverbs: the library's functions that the program calls by name. Each
// checks its arguments as a provider and the kernel do, and returns the errno that they return.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "common/fabric/verbs/zoo/extended.h"
#include "common/fabric/verbs/zoo/hub.h"
#include "common/fabric/verbs/zoo/nic.h"
#include "common/fabric/verbs/zoo/paths.h"

#undef ibv_reg_mr
#undef ibv_query_port

#define LOCH_ZOO_EXPORT extern "C" [[gnu::visibility("default")]]

using namespace loch::fabric::verbs::zoo;  // the functions below have the library's global names

namespace {

template <typename T>
T* refuse(int reason) {
  errno = reason;
  return nullptr;
}

// Reports that the program destroys an object that other objects still use. Returns EBUSY.
int busy(const char* what, int users) {
  complain("a %s is destroyed that %d objects still use", what, users);
  return EBUSY;
}

int in_bounds(int value, int most) { return value >= 0 && value <= most ? 0 : EINVAL; }

bool has_type(const DeviceModel& model, ibv_qp_type type) {
  return (type == IBV_QPT_RC && model.rc) || (type == IBV_QPT_UC && model.uc) ||
         (type == IBV_QPT_UD && model.ud);
}

int check_capabilities(const DeviceModel& model, const ibv_qp_init_attr& asked) {
  if (!has_type(model, asked.qp_type)) return EOPNOTSUPP;
  if (asked.send_cq == nullptr || asked.recv_cq == nullptr) return EINVAL;
  const auto most = [](std::uint32_t value, int limit) { return value <= static_cast<std::uint32_t>(limit); };
  const bool fits =
      most(asked.cap.max_send_wr, model.max_qp_wr) && most(asked.cap.max_recv_wr, model.max_qp_wr) &&
      most(asked.cap.max_send_sge, model.max_sge) && most(asked.cap.max_recv_sge, model.max_sge) &&
      asked.cap.max_inline_data <= model.max_inline;
  return fits ? 0 : EINVAL;
}

void fill_port(const Nic& nic, ibv_port_attr& port) {
  const DeviceModel& model = nic.model();
  port.state = nic.is_down ? IBV_PORT_DOWN : model.state;
  port.max_mtu = IBV_MTU_4096;
  port.active_mtu = mtu_of(model.mtu_bytes);
  port.gid_tbl_len = static_cast<int>(nic.gids.size());
  port.max_msg_sz = 1u << 30;
  port.pkey_tbl_len = static_cast<std::uint16_t>(
      std::ranges::count_if(model.pkeys, [](std::uint16_t key) { return key != 0; }));
  port.lid = nic.lid;
  port.sm_lid = nic.lid != 0 ? 1 : 0;
  port.active_width = model.width;
  port.active_speed = model.speed;
  port.phys_state = model.state == IBV_PORT_ACTIVE ? 5 : 3;
  port.link_layer = model.link;
  port.flags = model.requires_grh ? IBV_QPF_GRH_REQUIRED : 0;
}

// Drops the events of a queue pair that the program has not fetched, and waits until it has acknowledged
// those that it fetched, as ibv_destroy_qp does.
void drop_events(QueuePair& qp) {
  {
    const std::scoped_lock lock(qp.nic->events_mutex);
    std::erase_if(qp.nic->events, [&](const ibv_async_event& event) { return is_of(event, qp); });
  }
  const Nanos patience = now() + Nanos{5'000'000'000};
  for (;;) {
    {
      const std::scoped_lock lock(qp.events_mutex);
      if (qp.events_fetched == qp.events_acked) return;
    }
    if (now() > patience)
      return complain("queue pair %u waits for an event to be acknowledged", qp.qp_base.qp_num);
    usleep(100);
  }
}

}  // namespace

// ---- Devices ---------------------------------------------------------------------------------------

LOCH_ZOO_EXPORT ibv_device** ibv_get_device_list(int* count) {
  hub().configure();
  if (const int reason = hub().fault(Call::get_device_list); reason != 0) return refuse<ibv_device*>(reason);
  auto** list = new ibv_device*[hub().devices.size() + 1]();
  for (std::size_t i = 0; i < hub().devices.size(); ++i) list[i] = hub().devices[i].get();
  if (count != nullptr) *count = static_cast<int>(hub().devices.size());
  return list;
}

LOCH_ZOO_EXPORT void ibv_free_device_list(ibv_device** list) { delete[] list; }
LOCH_ZOO_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }
LOCH_ZOO_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  return htobe64(0x0c42a10300000000u + static_cast<Device*>(device)->number);
}

LOCH_ZOO_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  if (const int reason = hub().fault(Call::open_device); reason != 0) return refuse<ibv_context>(reason);
  auto* nic = new Nic();
  nic->device = static_cast<Device*>(device);
  set_addresses(*nic);
  ibv_context& context = nic->verbs.context;
  context.device = device;
  context.cmd_fd = -1;
  context.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  context.num_comp_vectors = 2;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  nic->verbs.sz = sizeof nic->verbs;
  nic->verbs.query_port = [](ibv_context* of, std::uint8_t port, ibv_port_attr* to, std::size_t size) {
    ibv_port_attr all{};
    if (const int reason = hub().fault(Call::query_port); reason != 0) return reason;
    if (port != 1) return EINVAL;
    fill_port(nic_of(of), all);
    std::memcpy(to, &all, std::min(size, sizeof all));
    return 0;
  };
  set_data_path(context);
  set_extended(*nic);
  hub().add(nic);
  hub().opened();
  return &context;
}

LOCH_ZOO_EXPORT int ibv_close_device(ibv_context* context) {
  Nic& nic = nic_of(context);
  if (const int left = nic.objects.load(); left != 0)
    complain("a device is closed with %d objects left", left);
  hub().remove(&nic);
  hub().closed();
  close(context->async_fd);
  delete &nic;
  return 0;
}

LOCH_ZOO_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* to) {
  if (const int reason = hub().fault(Call::query_device); reason != 0) return reason;
  const DeviceModel& model = nic_of(context).model();
  *to = {};
  std::strncpy(to->fw_ver, "0.zoo", sizeof to->fw_ver - 1);
  to->vendor_id = model.vendor;
  to->vendor_part_id = model.part;
  to->max_mr_size = ~std::uint64_t{0};
  to->max_qp = to->max_cq = to->max_mr = to->max_pd = to->max_ah = 60000;
  to->max_qp_wr = model.max_qp_wr;
  to->max_sge = to->max_sge_rd = model.max_sge;
  to->max_cqe = model.max_cqe;
  to->max_qp_rd_atom = to->max_qp_init_rd_atom = model.max_rd_atomic;
  to->atomic_cap = model.atomics;
  to->max_srq = model.max_srq;
  to->max_srq_wr = model.max_srq_wr;
  to->max_srq_sge = model.max_srq == 0 ? 0 : model.max_sge;
  to->max_pkeys = pkeys_most;
  to->phys_port_cnt = 1;
  return 0;
}

// ibv_query_port as old binaries call it: their struct of port attributes ends with link_layer.
LOCH_ZOO_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* to) {
  return nic_of(context).verbs.query_port(context, port, reinterpret_cast<ibv_port_attr*>(to),
                                          offsetof(ibv_port_attr, flags));
}

LOCH_ZOO_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* to, std::size_t most,
                                             std::uint32_t, std::size_t) {
  if (const int reason = hub().fault(Call::query_gid_table); reason != 0) return -reason;
  const auto& gids = nic_of(context).gids;
  const std::size_t count = std::min(most, gids.size());
  std::copy_n(gids.begin(), count, to);
  return static_cast<ssize_t>(count);
}

LOCH_ZOO_EXPORT int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                      ibv_gid_entry* to, std::uint32_t, std::size_t) {
  if (const int reason = hub().fault(Call::query_gid); reason != 0) return reason;
  const auto& gids = nic_of(context).gids;
  if (port != 1 || index >= gids.size()) return ENODATA;
  *to = gids[index];
  return 0;
}

LOCH_ZOO_EXPORT int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* to) {
  ibv_gid_entry entry{};
  if (index < 0 || _ibv_query_gid_ex(context, port, static_cast<std::uint32_t>(index), &entry, 0, 0) != 0)
    return -1;
  *to = entry.gid;
  return 0;
}

LOCH_ZOO_EXPORT int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* to) {
  if (const int reason = hub().fault(Call::query_pkey); reason != 0) return refuse<int>(reason), -1;
  if (port != 1 || in_bounds(index, static_cast<int>(pkeys_most) - 1) != 0) return refuse<int>(EINVAL), -1;
  *to = htobe16(nic_of(context).model().pkeys[index]);
  return 0;
}

LOCH_ZOO_EXPORT int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  __be16 found = 0;
  for (int index = 0; index < static_cast<int>(pkeys_most); ++index) {
    if (ibv_query_pkey(context, port, index, &found) == 0 && found == pkey) return index;
  }
  return -1;
}

// ---- Events ------------------------------------------------------------------------------------------

LOCH_ZOO_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* to) {
  Nic& nic = nic_of(context);
  for (;;) {
    std::uint64_t one = 0;
    if (read(context->async_fd, &one, sizeof one) != sizeof one)
      return -1;  // errno is EAGAIN if the program made async_fd non-blocking
    const std::scoped_lock lock(nic.events_mutex);
    if (nic.events.empty()) continue;  // the queue pair was destroyed, and its event was dropped
    *to = nic.events.front();
    nic.events.erase(nic.events.begin());
    if (QueuePair* qp = queue_pair_of(*to); qp != nullptr) {
      const std::scoped_lock counts(qp->events_mutex);
      ++qp->events_fetched;
    }
    return 0;
  }
}

LOCH_ZOO_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
  QueuePair* qp = queue_pair_of(*event);
  if (qp == nullptr) return;
  const std::scoped_lock counts(qp->events_mutex);
  ++qp->events_acked;
}

// ---- Domains, memory, addresses ------------------------------------------------------------------------

LOCH_ZOO_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (const int reason = hub().fault(Call::alloc_pd); reason != 0) return refuse<ibv_pd>(reason);
  auto* domain = new Domain();
  domain->context = context;
  domain->root = domain;
  ++nic_of(context).objects;
  return domain;
}

LOCH_ZOO_EXPORT int ibv_dealloc_pd(ibv_pd* pd) {
  auto* domain = static_cast<Domain*>(pd);
  if (domain->users != 0) return busy("protection domain", domain->users);
  if (domain->root != domain) --domain->root->users;
  --nic_of(pd->context).objects;
  delete domain;
  return 0;
}

LOCH_ZOO_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                                         unsigned access) {
  if (const int reason = hub().fault(Call::reg_mr); reason != 0) return refuse<ibv_mr>(reason);
  constexpr unsigned writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  const bool is_consistent = (access & writes) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  if (length == 0 || !is_consistent || iova != reinterpret_cast<std::uintptr_t>(address))
    return refuse<ibv_mr>(EINVAL);
  // Key indices are sequential, as on mlx5 devices. Each process of a network begins at another index, so
  // that a process that replaces one that ended does not reuse its keys.
  static std::atomic<std::uint32_t> next = 0x18 + (std::uint32_t{hub().wire.self()} << 11);
  auto* region = new Region();
  auto* domain = static_cast<Domain*>(pd)->root;
  region->context = pd->context;
  region->pd = pd;
  region->addr = address;
  region->length = length;
  region->domain = domain;
  region->access = access;
  for (std::uint32_t tries = 0; tries < Slots<Region>::size; ++tries) {
    const std::uint32_t index = next.fetch_add(1) & 0xffffff;
    region->lkey = region->rkey = index << 8 | (index >> 16 & 0xff);
    if (!hub().regions.put(index, region)) continue;
    ++domain->users;
    return region;
  }
  delete region;
  return refuse<ibv_mr>(ENOMEM);
}

LOCH_ZOO_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return ibv_reg_mr_iova2(pd, address, length, reinterpret_cast<std::uintptr_t>(address),
                          static_cast<unsigned>(access));
}

LOCH_ZOO_EXPORT int ibv_dereg_mr(ibv_mr* mr) {
  auto* region = static_cast<Region*>(mr);
  hub().regions.remove(region->lkey >> 8);
  --region->domain->users;
  delete region;
  return 0;
}

LOCH_ZOO_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* path) {
  if (const int reason = hub().fault(Call::create_ah); reason != 0) return refuse<ibv_ah>(reason);
  if (const int reason = check_path(nic_of(pd->context), *path); reason != 0) return refuse<ibv_ah>(reason);
  auto* handle = new AddressHandle();
  handle->context = pd->context;
  handle->pd = static_cast<Domain*>(pd)->root;
  handle->path = *path;
  ++static_cast<Domain*>(pd)->root->users;
  return handle;
}

LOCH_ZOO_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  --static_cast<Domain*>(ah->pd)->users;
  delete static_cast<AddressHandle*>(ah);
  return 0;
}

// ---- Queues --------------------------------------------------------------------------------------------

LOCH_ZOO_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* user, ibv_comp_channel*,
                                      int vector) {
  if (const int reason = hub().fault(Call::create_cq); reason != 0) return refuse<ibv_cq>(reason);
  Nic& nic = nic_of(context);
  if (entries < 1 || entries > nic.model().max_cqe || in_bounds(vector, context->num_comp_vectors - 1) != 0)
    return refuse<ibv_cq>(EINVAL);
  auto* queue = new CompletionQueue();
  queue->context = context;
  queue->cq_context = user;
  queue->cqe = entries;
  queue->ring.resize(static_cast<std::size_t>(entries));
  ++nic.objects;
  return ibv_cq_ex_to_cq(queue);
}

LOCH_ZOO_EXPORT int ibv_destroy_cq(ibv_cq* cq) {
  auto* queue = reinterpret_cast<CompletionQueue*>(cq);
  if (queue->users != 0) return busy("completion queue", queue->users);
  Nic& nic = nic_of(cq->context);
  {
    const std::scoped_lock lock(nic.events_mutex);
    std::erase_if(nic.events, [&](const ibv_async_event& event) {
      return event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
    });
  }
  --nic.objects;
  delete queue;
  return 0;
}

LOCH_ZOO_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* asked) {
  if (const int reason = hub().fault(Call::create_srq); reason != 0) return refuse<ibv_srq>(reason);
  const DeviceModel& model = nic_of(pd->context).model();
  if (model.max_srq == 0) return refuse<ibv_srq>(EOPNOTSUPP);
  if (asked->attr.max_wr == 0 || asked->attr.max_wr > static_cast<std::uint32_t>(model.max_srq_wr) ||
      asked->attr.max_sge > static_cast<std::uint32_t>(model.max_sge))
    return refuse<ibv_srq>(EINVAL);
  auto* queue = new SharedReceives();
  queue->context = pd->context;
  queue->pd = static_cast<Domain*>(pd)->root;
  queue->queue.open(asked->attr.max_wr, asked->attr.max_sge);
  ++static_cast<Domain*>(pd)->root->users;
  return queue;
}

LOCH_ZOO_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  auto* queue = static_cast<SharedReceives*>(srq);
  if (queue->users != 0) return busy("shared receive queue", queue->users);
  --static_cast<Domain*>(srq->pd)->users;
  delete queue;
  return 0;
}

LOCH_ZOO_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* asked) {
  static std::atomic<std::uint32_t> next = hub().settings.first_qpn;
  if (const int reason = hub().fault(Call::create_qp); reason != 0) return refuse<ibv_qp>(reason);
  Nic& nic = nic_of(pd->context);
  if (const int reason = check_capabilities(nic.model(), *asked); reason != 0) return refuse<ibv_qp>(reason);
  auto* qp = new QueuePair();
  qp->nic = &nic;
  qp->domain = static_cast<Domain*>(pd)->root;
  ibv_qp& base = qp->qp_base;
  base.context = pd->context;
  base.qp_context = asked->qp_context;
  base.pd = pd;
  base.send_cq = asked->send_cq;
  base.recv_cq = asked->recv_cq;
  base.srq = asked->srq;
  base.qp_type = asked->qp_type;
  base.state = IBV_QPS_RESET;
  qp->cap = asked->cap;
  qp->signals_all = asked->sq_sig_all != 0;
  qp->ring.resize(asked->cap.max_send_wr);
  if (asked->srq == nullptr) qp->receives.open(asked->cap.max_recv_wr, asked->cap.max_recv_sge);
  for (std::uint32_t tries = 0; base.qp_num == 0 && tries < Slots<QueuePair>::size; ++tries) {
    const std::uint32_t number = next.fetch_add(1) & psn_mask;
    if (number == 0 || !hub().queue_pairs.is_free(number)) continue;
    base.qp_num = number;
    if (!hub().queue_pairs.put(number, qp)) base.qp_num = 0;
  }
  if (base.qp_num == 0) {
    delete qp;
    return refuse<ibv_qp>(ENOMEM);
  }
  ++qp->domain->users;
  if (pd != qp->domain) ++static_cast<Domain*>(pd)->users;
  ++reinterpret_cast<CompletionQueue*>(base.send_cq)->users;
  ++reinterpret_cast<CompletionQueue*>(base.recv_cq)->users;
  if (base.srq != nullptr) ++static_cast<SharedReceives*>(base.srq)->users;
  return &base;
}

LOCH_ZOO_EXPORT int ibv_destroy_qp(ibv_qp* base) {
  auto* qp = reinterpret_cast<QueuePair*>(base);
  hub().queue_pairs.remove(base->qp_num);
  drop_events(*qp);
  auto& sends = *reinterpret_cast<CompletionQueue*>(base->send_cq);
  auto& receives = *reinterpret_cast<CompletionQueue*>(base->recv_cq);
  clean(sends, *qp);
  clean(receives, *qp);
  --sends.users;
  --receives.users;
  if (base->srq != nullptr) --static_cast<SharedReceives*>(base->srq)->users;
  --qp->domain->users;
  if (base->pd != qp->domain) --static_cast<Domain*>(base->pd)->users;
  delete qp;
  return 0;
}

LOCH_ZOO_EXPORT int ibv_modify_qp(ibv_qp* base, ibv_qp_attr* attributes, int mask) {
  if (const int reason = hub().fault(Call::modify_qp); reason != 0) return reason;
  const int reason = modify(*reinterpret_cast<QueuePair*>(base), *attributes, mask);
  if (reason == 0 && (mask & IBV_QP_STATE) != 0) base->state = attributes->qp_state;
  hub().settle();
  return reason;
}

LOCH_ZOO_EXPORT int ibv_query_qp_data_in_order(ibv_qp* base, ibv_wr_opcode, std::uint32_t) {
  if (hub().fault(Call::query_qp_data_in_order) != 0) return 0;
  const auto* qp = reinterpret_cast<const QueuePair*>(base);
  const InOrder answer = qp->nic->model().in_order;
  return answer == InOrder::always || (answer == InOrder::in_rts && qp->at == IBV_QPS_RTS) ? 1 : 0;
}
