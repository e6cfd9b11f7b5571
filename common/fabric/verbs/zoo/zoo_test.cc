// Tests the emulated NIC through the verbs API: what it executes, and what it refuses as a NIC would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace loch::fabric::verbs::zoo {
namespace {

using testing::ElementsAre;

constexpr unsigned all_rights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// An open device with 8 KB of registered memory and one completion queue for all queue pairs.
struct Open {
  explicit Open(const std::string& settings, unsigned rights = all_rights, int entries = 64) {
    setenv("LOCH_ZOO", settings.c_str(), 1);
    ibv_device** list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, entries, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, bytes.data(), bytes.size(), static_cast<int>(rights));
  }
  ~Open() {
    for (ibv_qp* qp : pairs) EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  ibv_qp_init_attr asked(ibv_qp_type type) const {
    ibv_qp_init_attr init{};
    init.qp_type = type;
    init.send_cq = init.recv_cq = cq;
    init.cap = {
        .max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    return init;
  }
  ibv_qp* create(ibv_qp_type type) {
    ibv_qp_init_attr init = asked(type);
    ibv_qp* qp = ibv_create_qp(pd, &init);
    if (qp != nullptr) pairs.push_back(qp);
    return qp;
  }
  ibv_ah_attr path() const {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    ibv_ah_attr path{};
    path.port_num = 1;
    path.dlid = port.lid;
    if (port.lid != 0) return path;
    path.is_global = 1;
    path.grh.sgid_index = 3;
    EXPECT_EQ(ibv_query_gid(context, 1, 3, &path.grh.dgid), 0);
    return path;
  }
  int initialize(ibv_qp* qp) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    to.qkey = 7;
    to.qp_access_flags = all_rights;
    return ibv_modify_qp(qp, &to,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
  }
  int receive_from(ibv_qp* qp, std::uint32_t peer, ibv_mtu mtu = IBV_MTU_1024) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTR;
    to.path_mtu = mtu;
    to.dest_qp_num = peer;
    to.rq_psn = 5;
    to.max_dest_rd_atomic = 1;
    to.min_rnr_timer = 1;
    if (qp->qp_type == IBV_QPT_UD) return ibv_modify_qp(qp, &to, IBV_QP_STATE);
    to.ah_attr = path();
    return ibv_modify_qp(
        qp, &to,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            (qp->qp_type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
  }
  int make_sender(ibv_qp* qp) const {
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_RTS;
    to.sq_psn = 5;
    to.timeout = 8;  // code for 4.096 us * 2^8, about a millisecond
    to.retry_cnt = to.rnr_retry = 2;
    to.max_rd_atomic = 1;
    const int reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN | (qp->qp_type == IBV_QPT_RC ? reliable : 0));
  }
  // Two connected queue pairs; the tests post to the first.
  std::pair<ibv_qp*, ibv_qp*> connect(ibv_qp_type type) {
    ibv_qp *one = create(type), *other = create(type);
    for (auto [qp, peer] : {std::pair(one, other), std::pair(other, one)}) {
      EXPECT_EQ(initialize(qp), 0);
      EXPECT_EQ(receive_from(qp, peer->qp_num), 0);
      EXPECT_EQ(make_sender(qp), 0);
    }
    return {one, other};
  }
  // Posts a request whose local slice is the first `length` bytes of the memory.
  int post(ibv_qp* qp, ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey,
           std::uint32_t length = 8, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge slice{reinterpret_cast<std::uintptr_t>(bytes.data()), length, mr->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.wr_id = ++posted;
    request.sg_list = &slice;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = flags;
    request.wr.rdma = {address, rkey};
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) request.wr.atomic = {address, 1, 0, rkey};
    return ibv_post_send(qp, &request, &bad);
  }
  int post_receive(ibv_qp* qp, std::uint32_t length) {
    ibv_sge slice{at(4096), length, mr->lkey};
    ibv_recv_wr request{77, nullptr, &slice, 1}, *bad = nullptr;
    return ibv_post_recv(qp, &request, &bad);
  }
  // The statuses of the next `count` completions; fewer if five seconds pass.
  std::vector<ibv_wc_status> ended(std::size_t count) {
    std::vector<ibv_wc_status> statuses;
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (statuses.size() < count && std::chrono::steady_clock::now() < patience) {
      if (ibv_poll_cq(cq, 1, &last) == 1) statuses.push_back(last.status);
    }
    return statuses;
  }
  std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, 8);
    return value;
  }
  // Reads a word that the NIC's thread may write at the same time.
  std::uint64_t word_in_use(std::size_t offset) const {
    return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at(offset))).load(std::memory_order_acquire);
  }
  void set_word(std::size_t offset, std::uint64_t value) { std::memcpy(bytes.data() + offset, &value, 8); }

  alignas(64) std::array<std::byte, 8192> bytes{};
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<ibv_qp*> pairs;
  std::uint64_t posted = 0;
  ibv_wc last{};
};

TEST(ZooTest, ReadsWritesAndAdds) {
  Open nic("mlx5-ib");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  nic.set_word(0, 42);
  ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
  ASSERT_EQ(nic.post(one, IBV_WR_ATOMIC_FETCH_AND_ADD, nic.at(1024), nic.mr->rkey), 0);
  EXPECT_THAT(nic.ended(2), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_EQ(nic.word(1024), 43u);
  EXPECT_EQ(nic.word(0), 42u);
}

TEST(ZooTest, AtomicsReplyInTheDevicesByteOrder) {
  Open nic("mlx5-be");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  nic.set_word(1024, 0x0102030405060708);
  ASSERT_EQ(nic.post(one, IBV_WR_ATOMIC_FETCH_AND_ADD, nic.at(1024), nic.mr->rkey), 0);
  EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(nic.word(0), 0x0807060504030201u);
}

// A NIC checks the key, the range, the rights and the protection domain before it touches memory. After a
// refusal the queue pair is in the error state.
TEST(ZooTest, RefusesWhatTheRegionDoesNotAllow) {
  for (const int wrong : {0, 1, 2, 3}) {
    SCOPED_TRACE(wrong);
    Open nic("mlx5-ib", wrong == 2 ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : all_rights);
    const auto [one, other] = nic.connect(IBV_QPT_RC);
    ibv_pd* stranger = ibv_alloc_pd(nic.context);
    ibv_mr* strange = ibv_reg_mr(stranger, nic.bytes.data(), 64, all_rights);
    const std::uint64_t address = wrong == 1 ? nic.at(8192 - 4) : nic.at(0);
    const std::uint32_t key = wrong == 0   ? nic.mr->rkey + 0x100000
                              : wrong == 3 ? strange->rkey
                                           : nic.mr->rkey;
    ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, address, key), 0);
    ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(0), nic.mr->rkey, 8, 0), 0);
    EXPECT_THAT(nic.ended(2), ElementsAre(IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR));
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(nic.context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(event.element.qp, other);
    ibv_ack_async_event(&event);
    EXPECT_EQ(ibv_dereg_mr(strange), 0);
    EXPECT_EQ(ibv_dealloc_pd(stranger), 0);
  }
}

TEST(ZooTest, ForgetsTheKeyOfARegionThatWasDeregistered) {
  Open nic("mlx5-ib");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  std::array<std::byte, 64> gone{};
  ibv_mr* mr = ibv_reg_mr(nic.pd, gone.data(), gone.size(), all_rights);
  const std::uint32_t key = mr->rkey;
  ASSERT_EQ(ibv_dereg_mr(mr), 0);
  ASSERT_EQ(nic.post(one, IBV_WR_RDMA_READ, reinterpret_cast<std::uintptr_t>(gone.data()), key), 0);
  EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_REM_ACCESS_ERR));
}

TEST(ZooTest, MisalignedAtomicsAndUnknownLocalKeysAreErrors) {
  for (const bool is_local : {false, true}) {
    Open nic("mlx5-ib");
    const auto [one, other] = nic.connect(IBV_QPT_RC);
    if (is_local) nic.mr->lkey += 0x100000;
    ASSERT_EQ(nic.post(one, IBV_WR_ATOMIC_FETCH_AND_ADD, nic.at(1024 + (is_local ? 0 : 4)), nic.mr->rkey), 0);
    if (is_local) nic.mr->lkey -= 0x100000;
    EXPECT_THAT(nic.ended(1), ElementsAre(is_local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_INV_REQ_ERR));
  }
}

TEST(ZooTest, AsksAReceiverThatIsNotReadyAgain) {
  Open nic("mlx5-ib");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  ASSERT_EQ(nic.post(one, IBV_WR_SEND, 0, 0), 0);
  EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_RNR_RETRY_EXC_ERR));

  const auto [third, fourth] = nic.connect(IBV_QPT_RC);
  nic.set_word(0, 4711);
  ASSERT_EQ(nic.post_receive(fourth, 8), 0);
  ASSERT_EQ(nic.post(third, IBV_WR_SEND, 0, 0), 0);
  EXPECT_THAT(nic.ended(2), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS));
  EXPECT_EQ(nic.word(4096), 4711u);
}

TEST(ZooTest, AMessageLongerThanItsBufferBreaksBothEnds) {
  Open nic("mlx5-ib");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  ASSERT_EQ(nic.post_receive(other, 4), 0);
  ASSERT_EQ(nic.post_receive(other, 64), 0);
  ASSERT_EQ(nic.post(one, IBV_WR_SEND, 0, 0), 0);
  EXPECT_THAT(nic.ended(3),
              testing::UnorderedElementsAre(IBV_WC_LOC_LEN_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_REM_INV_REQ_ERR));
}

TEST(ZooTest, APeerThatDoesNotAnswerIsGivenUp) {
  Open nic("mlx5-roce");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(other, &error, IBV_QP_STATE), 0);
  ASSERT_EQ(nic.post(one, IBV_WR_RDMA_READ, nic.at(0), nic.mr->rkey), 0);
  EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_RETRY_EXC_ERR));
}

TEST(ZooTest, UnreliableMessagesWithoutABufferAreLost) {
  Open nic("mlx5-ib");
  const auto [one, other] = nic.connect(IBV_QPT_UC);
  ASSERT_EQ(nic.post(one, IBV_WR_SEND, 0, 0), 0);
  EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_SUCCESS));
  EXPECT_EQ(ibv_poll_cq(nic.cq, 1, &nic.last), 0);
}

TEST(ZooTest, DatagramsArriveBehindTheirHeader) {
  Open nic("mlx5-roce");
  ibv_qp *one = nic.create(IBV_QPT_UD), *other = nic.create(IBV_QPT_UD);
  for (ibv_qp* qp : {one, other}) {
    ASSERT_EQ(nic.initialize(qp), 0);
    ASSERT_EQ(nic.receive_from(qp, 0), 0);
    ASSERT_EQ(nic.make_sender(qp), 0);
  }
  ibv_ah_attr path = nic.path();
  ibv_ah* handle = ibv_create_ah(nic.pd, &path);
  ASSERT_NE(handle, nullptr);
  ASSERT_EQ(nic.post_receive(other, 48), 0);
  nic.set_word(0, 99);
  for (const std::uint32_t qkey : {8u, 7u}) {  // the receiver's QKey is 7, so the first datagram is lost
    ibv_sge slice{nic.at(0), 8, nic.mr->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &slice;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.ud = {handle, other->qp_num, qkey};
    ASSERT_EQ(ibv_post_send(one, &request, &bad), 0);
  }
  EXPECT_THAT(nic.ended(3), testing::Each(IBV_WC_SUCCESS));
  EXPECT_EQ(nic.word(4096 + 40), 99u);
  EXPECT_EQ(std::memcmp(nic.bytes.data() + 4096 + 32, path.grh.dgid.raw + 12, 4),
            0);  // the port sent to itself, so the IPv4 source is the port's own address
  EXPECT_EQ(ibv_destroy_ah(handle), 0);
}

TEST(ZooTest, ASendQueueIsFullUntilACompletionIsPolled) {
  Open nic("mlx5-ib");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  for (int i = 0; i < 16; ++i)
    ASSERT_EQ(
        nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey, 8, i == 15 ? IBV_SEND_SIGNALED : 0u), 0);
  EXPECT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), ENOMEM);
  EXPECT_EQ(nic.ended(1).size(), 1u);
  EXPECT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
}

TEST(ZooTest, ACompletionQueueThatOverrunsIsGone) {
  Open nic("mlx5-ib", all_rights, 2);
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
  EXPECT_EQ(nic.ended(2).size(), 2u);
  EXPECT_EQ(ibv_poll_cq(nic.cq, 1, &nic.last), -1);
  ibv_async_event event{};
  ASSERT_EQ(ibv_get_async_event(nic.context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
}

TEST(ZooTest, APortThatRequiresAHeaderRefusesPathsWithoutIt) {
  Open nic("mlx5-vf");
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(nic.context, 1, &port), 0);
  EXPECT_EQ(port.flags & IBV_QPF_GRH_REQUIRED, IBV_QPF_GRH_REQUIRED);
  ibv_ah_attr path = nic.path();
  EXPECT_EQ(ibv_create_ah(nic.pd, &path), nullptr);
  path.is_global = 1;
  ASSERT_EQ(ibv_query_gid(nic.context, 1, 0, &path.grh.dgid), 0);
  ibv_ah* handle = ibv_create_ah(nic.pd, &path);
  ASSERT_NE(handle, nullptr);
  EXPECT_EQ(ibv_destroy_ah(handle), 0);
}

TEST(ZooTest, StatesAreEnteredInOrderWithAllTheirAttributes) {
  Open nic("mlx5-roce");
  ibv_qp* qp = nic.create(IBV_QPT_RC);
  EXPECT_EQ(nic.receive_from(qp, 1), EINVAL);  // no transition leads from RESET to RTR
  ASSERT_EQ(nic.initialize(qp), 0);
  EXPECT_EQ(nic.receive_from(qp, 1, IBV_MTU_4096), EINVAL);  // the port's MTU is 1,024
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  EXPECT_EQ(ibv_modify_qp(qp, &to, IBV_QP_STATE), EINVAL);  // required attributes are missing
  EXPECT_EQ(nic.post(qp, IBV_WR_RDMA_WRITE, nic.at(0), nic.mr->rkey), EINVAL);
  ASSERT_EQ(nic.receive_from(qp, qp->qp_num), 0);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 0);
  ASSERT_EQ(nic.make_sender(qp), 0);
  EXPECT_EQ(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 1);
}

TEST(ZooTest, DevicesKeepToTheirLimits) {
  Open nic("irdma");
  EXPECT_EQ(nic.create(IBV_QPT_UC), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_qp_init_attr init = nic.asked(IBV_QPT_RC);
  init.cap.max_inline_data = 102;
  EXPECT_EQ(ibv_create_qp(nic.pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq_init_attr srq{nullptr, {16, 1, 0}};
  EXPECT_EQ(ibv_create_srq(nic.pd, &srq), nullptr);
  ibv_td_init_attr td{};
  EXPECT_EQ(ibv_alloc_td(nic.context, &td), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST(ZooTest, TheNthCallFails) {
  Open nic("mlx5-ib,fail=ibv_create_qp:2:EAGAIN,fail=ibv_post_send:2,fail=completion:1:REM_OP_ERR");
  EXPECT_NE(nic.create(IBV_QPT_RC), nullptr);
  EXPECT_EQ(nic.create(IBV_QPT_RC), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  EXPECT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
  EXPECT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), ENOMEM);
  EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_REM_OP_ERR));
}

TEST(ZooTest, LateRequestsKeepTheirOrder) {
  Open nic("mlx5-ib,delay_us=300");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  for (int i = 0; i < 8; ++i) ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
  std::vector<std::uint64_t> order;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (order.size() < 8 && std::chrono::steady_clock::now() < patience) {
    if (ibv_poll_cq(nic.cq, 1, &nic.last) == 1) order.push_back(nic.last.wr_id);
  }
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// Of three WRITEs to a word, only the second can overtake the first: the first is placed before the third at
// the latest, so that the word does not keep the first value. It keeps the third, or the second if the third
// has overtaken that one.
TEST(ZooTest, AWriteIsOvertakenByOneRequest) {
  Open nic("mlx5-ib,overtake=write:1");
  const auto [one, other] = nic.connect(IBV_QPT_RC);
  for (std::uint64_t value = 1; value <= 3; ++value) {
    nic.set_word(0, value);
    ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
    ASSERT_THAT(nic.ended(1), ElementsAre(IBV_WC_SUCCESS));
  }
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  do {
    // 100 times as long as a WRITE is held back
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (nic.word_in_use(1024) == 1 && std::chrono::steady_clock::now() < patience);
  EXPECT_GE(nic.word_in_use(1024), 2U);
}

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

TEST(ZooTest, ResentRequestsAreCountedInFilesAsTheKernels) {
  const std::string folder = testing::TempDir() + "zoo-counters-" + std::to_string(getpid());
  const std::string port = folder + "/zoo_mlx5_0/ports/1";
  {
    Open nic("mlx5-ib,retransmit=1,counter_start=4294967295,counters=" + folder);
    const auto [one, other] = nic.connect(IBV_QPT_RC);
    EXPECT_EQ(line_of(port + "/hw_counters/packet_seq_err"), "4294967295");
    for (int i = 0; i < 3; ++i) ASSERT_EQ(nic.post(one, IBV_WR_RDMA_WRITE, nic.at(1024), nic.mr->rkey), 0);
    EXPECT_THAT(nic.ended(3), ElementsAre(IBV_WC_SUCCESS, IBV_WC_SUCCESS, IBV_WC_SUCCESS));
    EXPECT_EQ(line_of(port + "/hw_counters/packet_seq_err"), "2");  // wraps: 2^32 - 1 + 3 resent requests
    ibv_qp_attr error{};
    error.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(other, &error, IBV_QP_STATE), 0);
    ASSERT_EQ(nic.post(one, IBV_WR_RDMA_READ, nic.at(0), nic.mr->rkey), 0);
    EXPECT_THAT(nic.ended(1), ElementsAre(IBV_WC_RETRY_EXC_ERR));
    EXPECT_EQ(line_of(port + "/hw_counters/local_ack_timeout_err"), "2");  // wraps: 2^32 - 1 + 3 time-outs
    EXPECT_EQ(line_of(port + "/counters/symbol_error"), "0");
    EXPECT_EQ(line_of(folder + "/zoo_mlx5_0/device/numa_node"), "0");
  }
  std::filesystem::remove_all(folder);
}

TEST(ZooTest, ExtendedPostingAndDomains) {
  Open nic("mlx5-ib");
  ibv_td_init_attr td_asked{};
  ibv_td* td = ibv_alloc_td(nic.context, &td_asked);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr parent_asked{};
  parent_asked.pd = nic.pd;
  parent_asked.td = td;
  ibv_pd* parent = ibv_alloc_parent_domain(nic.context, &parent_asked);
  ASSERT_NE(parent, nullptr);
  ibv_cq_init_attr_ex cq_asked{};
  cq_asked.cqe = 8;
  cq_asked.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq = ibv_create_cq_ex(nic.context, &cq_asked);
  ASSERT_NE(cq, nullptr);
  const ibv_qp_init_attr plain = nic.asked(IBV_QPT_RC);
  ibv_qp_init_attr_ex asked{};
  asked.send_cq = ibv_cq_ex_to_cq(cq);
  asked.recv_cq = nic.cq;
  asked.cap = plain.cap;
  asked.cap.max_inline_data = 8;
  asked.qp_type = IBV_QPT_RC;
  asked.pd = parent;
  asked.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  asked.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* qp = ibv_create_qp_ex(nic.context, &asked);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(ibv_qp_to_qp_ex(nic.create(IBV_QPT_RC)), nullptr);
  ASSERT_EQ(nic.initialize(qp), 0);
  ASSERT_EQ(nic.receive_from(qp, qp->qp_num), 0);
  ASSERT_EQ(nic.make_sender(qp), 0);
  ibv_qp_ex* extended = ibv_qp_to_qp_ex(qp);
  std::uint64_t value = 31;
  ibv_wr_start(extended);
  extended->wr_id = 12;
  extended->wr_flags = IBV_SEND_SIGNALED;
  // The region belongs to the protection domain that the queue pair's parent domain extends.
  ibv_wr_rdma_write(extended, nic.mr->rkey, nic.at(2048));
  ibv_wr_set_inline_data(extended, &value, 8);
  ASSERT_EQ(ibv_wr_complete(extended), 0);
  ibv_poll_cq_attr poll{};
  ASSERT_EQ(ibv_start_poll(cq, &poll), 0);
  EXPECT_EQ(cq->wr_id, 12u);
  EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
  ibv_end_poll(cq);
  EXPECT_EQ(nic.word(2048), 31u);
  // A READ with inline data is refused. ibv_wr_complete then posts neither the READ nor the WRITE built
  // before it.
  value = 32;
  ibv_wr_start(extended);
  ibv_wr_rdma_write(extended, nic.mr->rkey, nic.at(2048));
  ibv_wr_set_inline_data(extended, &value, 8);
  ibv_wr_rdma_read(extended, nic.mr->rkey, nic.at(2048));
  ibv_wr_set_inline_data(extended, &value, 8);
  EXPECT_EQ(ibv_wr_complete(extended), EINVAL);
  EXPECT_EQ(ibv_start_poll(cq, &poll), ENOENT);
  EXPECT_EQ(nic.word(2048), 31u);
  // A program that breaks a rule of ibv_wr_* is told so.
  testing::internal::CaptureStderr();
  ibv_wr_start(extended);
  ibv_wr_rdma_write(extended, nic.mr->rkey, nic.at(2048));
  EXPECT_NE(nic.post(qp, IBV_WR_RDMA_READ, nic.at(0), nic.mr->rkey), -1);
  EXPECT_EQ(ibv_wr_complete(extended), 0);
  ibv_wr_rdma_write(extended, nic.mr->rkey, nic.at(2048));
  const std::string said = testing::internal::GetCapturedStderr();
  for (const char* rule :
       {"ibv_post_send between", "without a call that sets its data", "without ibv_wr_start"})
    EXPECT_THAT(said, testing::HasSubstr(rule));
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  EXPECT_EQ(ibv_dealloc_pd(parent), 0);
  EXPECT_EQ(ibv_dealloc_td(td), 0);
}

}  // namespace
}  // namespace loch::fabric::verbs::zoo
