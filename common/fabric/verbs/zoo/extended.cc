// The extended verbs of the emulated libibverbs: thread domains, parent domains, completion queues that are
// read field by field, and posting by ibv_wr_*.
#include "common/fabric/verbs/zoo/extended.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/fabric/verbs/zoo/hub.h"

namespace loch::fabric::verbs::zoo {
namespace {

struct ThreadDomain : ibv_td {};

// ---- Domains -----------------------------------------------------------------------------------------

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr*) {
  if (const int reason = hub().fault(Call::alloc_td); reason != 0) {
    errno = reason;
    return nullptr;
  }
  auto* domain = new ThreadDomain();
  domain->context = context;
  ++nic_of(context).objects;
  return domain;
}

int dealloc_td(ibv_td* td) {
  --nic_of(td->context).objects;
  delete static_cast<ThreadDomain*>(td);
  return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* asked) {
  const int reason = hub().fault(Call::alloc_parent_domain);
  if (reason != 0 || asked->pd == nullptr || asked->comp_mask != 0) {
    errno = reason != 0 ? reason : EINVAL;
    return nullptr;
  }
  auto* domain = new Domain();
  domain->context = context;
  domain->root = static_cast<Domain*>(asked->pd)->root;
  ++domain->root->users;
  ++nic_of(context).objects;
  return domain;
}

// ---- Completion queues ----------------------------------------------------------------------------------

CompletionQueue& queue_of(ibv_cq_ex* queue) { return *static_cast<CompletionQueue*>(queue); }

int next_poll(ibv_cq_ex* queue) {
  CompletionQueue& from = queue_of(queue);
  if (!pop(from, from.current)) return ENOENT;
  queue->wr_id = from.current.wc.wr_id;
  queue->status = from.current.wc.status;
  return 0;
}

int start_poll(ibv_cq_ex* queue, ibv_poll_cq_attr*) {
  if (hub().fault(Call::poll_cq) != 0) return EIO;
  if (next_poll(queue) == 0) return 0;
  hub().assist();
  return next_poll(queue);
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* asked) {
  constexpr std::uint64_t known = IBV_WC_STANDARD_FLAGS;
  const int reason = hub().fault(Call::create_cq_ex);
  if (reason != 0 || (asked->wc_flags & ~known) != 0) {
    errno = reason != 0 ? reason : EOPNOTSUPP;
    return nullptr;
  }
  ibv_cq* made = ibv_create_cq(context, static_cast<int>(asked->cqe), asked->cq_context, asked->channel,
                               static_cast<int>(asked->comp_vector));
  if (made == nullptr) return nullptr;
  auto* queue = reinterpret_cast<CompletionQueue*>(made);
  queue->start_poll = start_poll;
  queue->next_poll = next_poll;
  queue->end_poll = [](ibv_cq_ex*) {};
  queue->read_opcode = [](ibv_cq_ex* of) { return queue_of(of).current.wc.opcode; };
  queue->read_vendor_err = [](ibv_cq_ex* of) { return queue_of(of).current.wc.vendor_err; };
  queue->read_byte_len = [](ibv_cq_ex* of) { return queue_of(of).current.wc.byte_len; };
  queue->read_imm_data = [](ibv_cq_ex* of) { return queue_of(of).current.wc.imm_data; };
  queue->read_qp_num = [](ibv_cq_ex* of) { return queue_of(of).current.wc.qp_num; };
  queue->read_src_qp = [](ibv_cq_ex* of) { return queue_of(of).current.wc.src_qp; };
  queue->read_wc_flags = [](ibv_cq_ex* of) { return queue_of(of).current.wc.wc_flags; };
  queue->read_slid = [](ibv_cq_ex* of) { return std::uint32_t{queue_of(of).current.wc.slid}; };
  queue->read_sl = [](ibv_cq_ex* of) { return queue_of(of).current.wc.sl; };
  queue->read_dlid_path_bits = [](ibv_cq_ex* of) { return queue_of(of).current.wc.dlid_path_bits; };
  return queue;
}

// ---- Posting ----------------------------------------------------------------------------------------------

QueuePair& pair_of(ibv_qp_ex* qp) { return *static_cast<QueuePair*>(qp); }

// Says so if a program breaks a rule of ibv_wr_post(3) that a provider does not check.
void judge(const QueuePair& of, bool is_kept, const char* rule) {
  if (!is_kept) complain("queue pair %u: %s", of.qp_base.qp_num, rule);
}

// The work request that is being built: the one that the last ibv_wr_* call with an opcode has begun.
SendRequest& built(ibv_qp_ex* qp) {
  QueuePair& of = pair_of(qp);
  judge(of, of.built != 0, "a part of a work request comes before its opcode");
  if (of.building.empty()) of.building.emplace_back();
  return of.building[of.built == 0 ? 0 : of.built - 1];
}

SendRequest& begin(ibv_qp_ex* qp, ibv_wr_opcode opcode, std::uint32_t rkey = 0, std::uint64_t address = 0) {
  QueuePair& of = pair_of(qp);
  judge(of, of.is_building, "a work request is built without ibv_wr_start");
  judge(of, !of.lacks_data, "a work request is built without a call that sets its data");
  if (of.built == of.building.size()) of.building.emplace_back();
  SendRequest& made = of.building[of.built++];
  made.id = qp->wr_id;
  made.opcode = opcode;
  made.flags = qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
  made.rkey = rkey;
  made.address = address;
  made.slices.clear();
  made.inline_data.clear();
  of.lacks_data = true;
  return made;
}

void set_inline(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* pieces) {
  SendRequest& to = built(qp);
  pair_of(qp).lacks_data = false;
  to.flags |= IBV_SEND_INLINE;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = to.inline_data.size();
    to.inline_data.resize(at + pieces[i].length);
    fetch(pair_of(qp).nic->model(), reinterpret_cast<std::uintptr_t>(pieces[i].addr),
          std::span(to.inline_data).subspan(at));
  }
}

void set_destination(ibv_qp_ex* qp, ibv_ah* handle, std::uint32_t qpn, std::uint32_t qkey) {
  SendRequest& to = built(qp);
  to.path = static_cast<AddressHandle*>(handle)->path;
  to.path_domain = static_cast<Domain*>(handle->pd);
  to.to_qpn = qpn;
  to.to_qkey = qkey;
}

void set_slices(ibv_qp_ex* qp, std::size_t count, const ibv_sge* slices) {
  built(qp).slices.assign(slices, slices + count);
  pair_of(qp).lacks_data = false;
}

void start_build(ibv_qp_ex* qp) {
  QueuePair& of = pair_of(qp);
  judge(of, !of.is_building, "ibv_wr_start twice without ibv_wr_complete");
  of.is_building = true;
  of.built = 0;
  of.lacks_data = false;
}

// ibv_wr_complete: posts the built requests. If one of them is refused, none is posted, not even those before
// it ("the entire posting will be aborted", ibv_wr_post(3)); ibv_post_send would post those before it.
int complete_build(ibv_qp_ex* qp) {
  QueuePair& of = pair_of(qp);
  judge(of, of.is_building, "ibv_wr_complete without ibv_wr_start");
  judge(of, !of.lacks_data, "a work request is posted without a call that sets its data");
  of.is_building = false;
  return post_all(of, std::span(of.building).first(of.built));
}

void set_posting(QueuePair& qp) {
  qp.wr_start = start_build;
  qp.wr_complete = complete_build;
  qp.wr_abort = [](ibv_qp_ex* of) { pair_of(of).is_building = false; };
  qp.wr_rdma_read = [](ibv_qp_ex* of, std::uint32_t rkey, std::uint64_t address) {
    begin(of, IBV_WR_RDMA_READ, rkey, address);
  };
  qp.wr_rdma_write = [](ibv_qp_ex* of, std::uint32_t rkey, std::uint64_t address) {
    begin(of, IBV_WR_RDMA_WRITE, rkey, address);
  };
  qp.wr_rdma_write_imm = [](ibv_qp_ex* of, std::uint32_t rkey, std::uint64_t address, __be32 immediate) {
    begin(of, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address).immediate = immediate;
  };
  qp.wr_send = [](ibv_qp_ex* of) { begin(of, IBV_WR_SEND); };
  qp.wr_send_imm = [](ibv_qp_ex* of, __be32 immediate) {
    begin(of, IBV_WR_SEND_WITH_IMM).immediate = immediate;
  };
  qp.wr_atomic_cmp_swp = [](ibv_qp_ex* of, std::uint32_t rkey, std::uint64_t address, std::uint64_t compare,
                            std::uint64_t swap) {
    SendRequest& made = begin(of, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address);
    made.compare = compare;
    made.swap = swap;
  };
  qp.wr_atomic_fetch_add = [](ibv_qp_ex* of, std::uint32_t rkey, std::uint64_t address, std::uint64_t more) {
    begin(of, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address).compare = more;
  };
  qp.wr_set_sge = [](ibv_qp_ex* of, std::uint32_t lkey, std::uint64_t address, std::uint32_t length) {
    const ibv_sge slice{address, length, lkey};
    set_slices(of, 1, &slice);
  };
  qp.wr_set_sge_list = set_slices;
  qp.wr_set_inline_data = [](ibv_qp_ex* of, void* data, std::size_t length) {
    const ibv_data_buf piece{data, length};
    set_inline(of, 1, &piece);
  };
  qp.wr_set_inline_data_list = set_inline;
  qp.wr_set_ud_addr = set_destination;
}

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* asked) {
  constexpr std::uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  const int reason = hub().fault(Call::create_qp_ex);
  if (reason != 0 || (asked->comp_mask & ~known) != 0 || (asked->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) {
    errno = reason != 0 ? reason : EINVAL;
    return nullptr;
  }
  // ibv_qp_init_attr_ex begins with the fields of ibv_qp_init_attr, so the cast is valid.
  ibv_qp* made = ibv_create_qp(asked->pd, reinterpret_cast<ibv_qp_init_attr*>(asked));
  if (made == nullptr) return nullptr;
  auto& qp = *reinterpret_cast<QueuePair*>(made);
  qp.is_extended = true;
  set_posting(qp);
  return made;
}

}  // namespace

void set_extended(Nic& nic) {
  if (nic.model().has_domains) {
    nic.verbs.alloc_td = alloc_td;
    nic.verbs.dealloc_td = dealloc_td;
    nic.verbs.alloc_parent_domain = alloc_parent_domain;
  }
  if (nic.model().has_extended) {
    nic.verbs.create_cq_ex = create_cq_ex;
    nic.verbs.create_qp_ex = create_qp_ex;
  }
}

}  // namespace loch::fabric::verbs::zoo

extern "C" [[gnu::visibility("default")]] ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  auto* of = reinterpret_cast<loch::fabric::verbs::zoo::QueuePair*>(qp);
  return of->is_extended ? of : nullptr;
}
