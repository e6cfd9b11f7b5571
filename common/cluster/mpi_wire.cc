// Sends and receives bytes between launcher processes by non-blocking MPI calls.
#include "common/cluster/mpi_wire.h"

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace loch::cluster {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int tag_secret = 1, tag_message = 2, tag_urgent = 3;
constexpr std::size_t urgent_bytes_max = 1024;
static_assert(message_bytes_max < std::size_t{1} << 31, "MPI counts in int");

// Restricts Open MPI to plain TCP, which suffices for control messages. By default Open MPI would open
// the RDMA devices that are about to be measured. Settings made by the user take precedence.
void prefer_plain_tcp() {
  setenv("OMPI_MCA_pml", "ob1", 0);
  setenv("OMPI_MCA_btl", "self,tcp", 0);
  setenv("OMPI_MCA_osc", "^ucx", 0);
  setenv("OMPI_MCA_coll", "^hcoll", 0);
  setenv("OMPI_MCA_btl_tcp_warn_all_unfound_interfaces", "0", 0);
}

struct Sending {
  std::string bytes;  // owned by MPI until the request has completed
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Receiving {
  std::string bytes;
  MPI_Request request = MPI_REQUEST_NULL;
  bool is_too_large = false;
};

bool is_done(MPI_Request& request) {
  int done = 0;
  // A request that failed counts as completed; the loss of its peer is detected by missing heartbeats.
  return MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
}

class OpenWire final : public MpiWire {
 public:
  OpenWire(std::uint32_t rank, std::uint32_t ranks)
      : rank_(rank), ranks_(ranks), sending_(ranks), receiving_(ranks), is_given_up_(ranks, false) {}

  Result<Secret> share_secret(Nanos within) override {
    Secret secret{};
    if (rank_ == 0) {
      LOCH_ASSIGN(secret, draw_secret());
      for (std::uint32_t to = 1; to < ranks_; ++to)
        post(to, std::string(reinterpret_cast<const char*>(secret.data()), secret.size()), tag_secret);
      return secret;
    }
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(secret.data(), static_cast<int>(secret.size()), MPI_BYTE, 0, tag_secret, MPI_COMM_WORLD,
              &request);
    const auto deadline = Clock::now() + std::chrono::nanoseconds(within);
    while (!is_done(request)) {
      if (Clock::now() > deadline) {
        return fail(ErrorCode::timed_out,
                    fmt::format("no word from rank 0 within {}", format_duration(within)));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return secret;
  }

  void send(std::uint32_t to, std::string bytes, bool is_urgent) override {
    if (!is_given_up_[to]) post(to, std::move(bytes), is_urgent ? tag_urgent : tag_message);
  }

  std::optional<std::pair<std::uint32_t, std::string>> receive() override {
    retire_sent();
    take_up_arrivals();
    if (!urgent_.empty() && is_done(urgent_.front().second.request)) {
      const std::uint32_t from = urgent_.front().first;
      std::string bytes = std::move(urgent_.front().second.bytes);
      urgent_.pop_front();
      return std::pair(from, std::move(bytes));
    }
    for (std::uint32_t i = 0; i < ranks_; ++i) {
      const std::uint32_t from = (next_ + i) % ranks_;
      auto& queue = receiving_[from];
      if (queue.empty() || is_given_up_[from] || !is_done(queue.front().request)) continue;
      next_ = from + 1;  // round robin: the next call begins with the following rank
      // An oversized message is passed on as an empty one, which Opener::open() refuses and counts.
      std::string bytes = queue.front().is_too_large ? std::string() : std::move(queue.front().bytes);
      queue.pop_front();
      return std::pair(from, std::move(bytes));
    }
    return std::nullopt;
  }

  // Ignores the rank from now on. Its buffers are kept, since MPI may still read them.
  void give_up(std::uint32_t rank) override { is_given_up_[rank] = true; }

  void flush(Nanos within) override {
    const auto deadline = Clock::now() + std::chrono::nanoseconds(within);
    for (;;) {
      retire_sent();
      take_up_arrivals();
      bool is_flushed = true;
      for (std::uint32_t to = 0; to < ranks_; ++to)
        is_flushed = is_flushed && (is_given_up_[to] || sending_[to].empty());
      if (is_flushed || Clock::now() > deadline) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void close() override { MPI_Finalize(); }

 private:
  void post(std::uint32_t to, std::string bytes, int tag) {
    Sending& sending = sending_[to].emplace_back(std::move(bytes));
    MPI_Isend(sending.bytes.data(), static_cast<int>(sending.bytes.size()), MPI_BYTE, static_cast<int>(to),
              tag, MPI_COMM_WORLD, &sending.request);
  }

  void retire_sent() {
    for (std::uint32_t to = 0; to < ranks_; ++to) {
      if (is_given_up_[to]) continue;
      auto& queue = sending_[to];
      while (!queue.empty() && is_done(queue.front().request)) queue.pop_front();
    }
  }

  // Begins to receive the messages that have arrived. A sender's messages are returned in order: a small
  // message waits for a large one before it that is still being received.
  void take_up_arrivals() {
    take_up(tag_urgent, urgent_bytes_max,
            [&](std::uint32_t from) -> Receiving& { return urgent_.emplace_back(from, Receiving{}).second; });
    take_up(tag_message, message_bytes_max,
            [&](std::uint32_t from) -> Receiving& { return receiving_[from].emplace_back(); });
  }

  // Receives messages with one MPI tag. `place` returns a new buffer for a message of a sender; the
  // buffer's address must not change while MPI fills it.
  void take_up(int tag, std::size_t bytes_max, const std::function<Receiving&(std::uint32_t)>& place) {
    for (std::uint32_t most = 0; most < 4 * ranks_ + 64; ++most) {
      int has_one = 0, bytes = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status{};
      if (MPI_Improbe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &has_one, &message, &status) != MPI_SUCCESS ||
          has_one == 0)
        return;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      const auto from = static_cast<std::uint32_t>(status.MPI_SOURCE);
      LOCH_CHECK_LT(from, ranks_);
      Receiving& receiving = place(from);
      receiving.is_too_large = bytes < 0 || static_cast<std::size_t>(bytes) > bytes_max;
      // MPI truncates an oversized message to this one-byte buffer; it is dropped later.
      receiving.bytes.resize(receiving.is_too_large ? 1 : static_cast<std::size_t>(bytes));
      MPI_Imrecv(receiving.bytes.data(), static_cast<int>(receiving.bytes.size()), MPI_BYTE, &message,
                 &receiving.request);
    }
  }

  std::uint32_t rank_, ranks_;
  // by receiver; a deque, because its elements must not move during a send
  std::vector<std::deque<Sending>> sending_;
  std::vector<std::deque<Receiving>> receiving_;  // messages by sender
  std::deque<std::pair<std::uint32_t, Receiving>> urgent_;
  std::vector<bool> is_given_up_;
  std::uint32_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<MpiWire>> MpiWire::open(const LaunchEnv& env) {
  prefer_plain_tcp();
  if (MPI_Init(nullptr, nullptr) != MPI_SUCCESS) return fail(ErrorCode::unavailable, "MPI_Init failed");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (static_cast<std::uint32_t>(rank) != env.rank || static_cast<std::uint32_t>(ranks) != env.ranks) {
    return fail(
        ErrorCode::unavailable,
        fmt::format("{} says rank {} of {}, MPI says rank {} of {}: srun needs --mpi=pmix, and an Open "
                    "MPI that was built with it",
                    env.launcher, env.rank, env.ranks, rank, ranks));
  }
  return std::make_unique<OpenWire>(env.rank, env.ranks);
}

}  // namespace loch::cluster
