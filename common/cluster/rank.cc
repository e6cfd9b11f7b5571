// Runs one rank: forks its working process, forwards that process's messages to other ranks over TCP or a
// shared folder, and restarts the process if configured.
#include "common/cluster/rank.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/check.h"
#include "common/base/die_with_parent.h"
#include "common/cluster/board_wire.h"
#include "common/cluster/channel_control.h"
#include "common/cluster/folder_board.h"
#include "common/cluster/pmix_bulletin.h"
#include "common/cluster/socket_channel.h"
#include "common/cluster/supervise.h"
#include "common/cluster/switchboard.h"
#include "common/cluster/tcp_board.h"

namespace loch::cluster {
namespace {

// Polling intervals of a launcher process in ns, during and without traffic. The launcher has to poll,
// because a shared folder offers no descriptor to sleep on, and for the end of its child.
constexpr Nanos look_often = 1'000'000, look_seldom = 10'000'000;
constexpr Nanos often_after_traffic = 1'000'000'000;
constexpr Nanos flush_within = 500'000'000;
constexpr unsigned finalize_within_s = 10;

Nanos now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::string host_name() {
  std::array<char, host_bytes_max + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "?";
  return clean_host(name.data());
}

// Ends the process if a call of PMIx takes longer than `seconds`, because such a call may wait for ever.
class Alarm {
 public:
  Alarm(unsigned seconds, int status, std::string last_words) {
    text = std::move(last_words);
    exit_status = status;
    struct sigaction action{};
    action.sa_handler = [](int) {
      (void)!write(STDERR_FILENO, text.data(), text.size());
      _exit(exit_status);
    };
    sigaction(SIGALRM, &action, &before_);
    alarm(seconds);
  }
  ~Alarm() {
    alarm(0);
    sigaction(SIGALRM, &before_, nullptr);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  // Static, because a signal handler gets no argument by which it could reach members.
  static inline std::string text;
  static inline int exit_status = 1;
  struct sigaction before_{};
};

// mpirun's processes exchange messages over TCP, and find each other by PMIx. All others use files in a
// folder that their hosts share.
Result<std::unique_ptr<Board>> open_board(const LaunchEnv& env) {
  const char* folder = std::getenv(rendezvous_variable);
  if (folder == nullptr && env.launcher == "mpirun") {
    const char* only = std::getenv("OMPI_MCA_oob_tcp_if_include");
    LOCH_ASSIGN(std::unique_ptr<Bulletin> bulletin, open_pmix_bulletin(env));
    const TcpBoardConfig config = {.rank = env.rank, .ranks = env.ranks, .only = only != nullptr ? only : ""};
    return open_tcp_board(config, std::move(bulletin));
  }
  return open_folder_board(fmt::format("{}/.loch-{}", folder != nullptr ? folder : ".", env.job), env.rank);
}

// A channel without peers, for a launch of one rank.
class NoChannel final : public Channel {
 public:
  void start(ChannelListener&) override {}
  void stop() override {}
  void send(Kind, std::uint32_t, const std::string&) override {}
};

int run_alone(const std::function<int(Control&)>& work) {
  NoChannel channel;
  ChannelControl control(channel, 0, {host_name()});
  return work(control);
}

void warn_of_a_frail_launch(const LaunchEnv& env, const std::string& label) {
  if (env.rank != 0 || env.launcher != "mpirun" || std::getenv("OMPI_MCA_orte_enable_recovery") != nullptr)
    return;
  fmt::print(stderr, "{}: mpirun without --enable-recovery ends every rank when a host is lost\n", label);
}

int run_work(const LaunchEnv& env, const RankConfig& config, int socket, std::uint32_t incarnation,
             const std::function<int(Control&)>& work) {
  SocketChannel channel(socket);
  // Wait 5 s longer than the launcher process does, so that the launcher times out first and names the
  // missing ranks.
  auto hosts = channel.await_welcome(config.setup_within + 5'000'000'000);
  if (hosts && hosts->size() != env.ranks) hosts = fail(ErrorCode::corrupt, "a welcome for another launch");
  if (!hosts) {
    fmt::print(stderr, "{}: {}\n", config.label, hosts.error().message);
    return 1;
  }
  ChannelControl control(channel, env.rank, std::move(*hosts), incarnation, config.lost_after);
  return work(control);
}

// ---- Restarting a rank's working process (child) ----------------------------------------------

constexpr const char* rejoin_variable = "LOCH_REJOIN";  // value: "INCARNATION LAUNCHER-PID"
constexpr int rejoin_socket = 3;

struct Rejoin {
  std::uint32_t incarnation = 0;
  pid_t launcher = 0;
};

// Reads the environment variable that a launcher process sets when it restarts its child process; none if
// this process was not restarted.
std::optional<Rejoin> read_rejoin() {
  const char* text = std::getenv(rejoin_variable);
  Rejoin rejoin;
  char end = 0;
  if (text == nullptr || std::sscanf(text, "%u %d%c", &rejoin.incarnation, &rejoin.launcher, &end) != 2 ||
      rejoin.incarnation == 0 || rejoin.launcher != getppid())
    return std::nullopt;  // not set, or inherited by a descendant of the restarted process
  return rejoin;
}

int run_rejoined(const LaunchEnv& env, const RankConfig& config, const Rejoin& rejoin,
                 const std::function<int(Control&)>& work) {
  if (!die_with_parent(rejoin.launcher)) return 1;
  unsetenv(rejoin_variable);
  return run_work(env, config, rejoin_socket, rejoin.incarnation, work);
}

// Starts this program again with the same arguments. In the new process the descriptor number rejoin_socket
// is `socket`, and no higher descriptor is open. A fork() would not do, because PMIx has threads in this
// process.
Result<pid_t> spawn_again(int socket, std::uint32_t incarnation) {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words{std::istreambuf_iterator<char>(file), {}};
  std::vector<char*> arguments, variables;
  for (std::size_t at = 0; at < words.size(); at = words.find('\0', at) + 1) arguments.push_back(&words[at]);
  arguments.push_back(nullptr);
  std::string mark = fmt::format("{}={} {}", rejoin_variable, incarnation, getpid());
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.push_back(mark.data());
  variables.push_back(nullptr);
  std::error_code ignored;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, rejoin_socket);
  posix_spawn_file_actions_addclosefrom_np(&actions, rejoin_socket + 1);
  pid_t pid = 0;
  const int reason =
      posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (reason != 0)
    return fail(ErrorCode::unavailable,
                fmt::format("cannot start {} again: {}", program, std::strerror(reason)));
  return pid;
}

// Signals that ask the whole run to end.
bool is_request(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP; }

// The launcher process of one rank: forwards messages between the working process (child) and other
// ranks.
class Launcher {
 public:
  Launcher(const LaunchEnv& env, const RankConfig& config, int socket)
      : env_(env), config_(config), child_(socket) {}

  // Serves the child until it ends and is not to be restarted; returns its wait status (waitpid).
  int accompany(pid_t pid) {
    child_.set_process(pid);
    if (auto ok = meet_the_others(); !ok) {
      fmt::print(stderr, "{}: {}\n", config_.label, ok.error().message);
      std::fflush(stderr);
      // kills the child too (PR_SET_PDEATHSIG)
      _exit(1);
    }
    for (;;) {
      const int status = await_end(pid);
      child_.set_process(0);
      if (!WIFSIGNALED(status)) {
        board_->child_ended(Fate::ended, static_cast<std::uint32_t>(WEXITSTATUS(status)));
        return status;
      }
      const int signal = WTERMSIG(status);
      board_->child_ended(Fate::killed, static_cast<std::uint32_t>(signal));
      if (board_->incarnation() == config_.restarts || board_->is_cut_off() || is_request(signal))
        return status;
      const auto again = start_again();
      if (!again) {
        fmt::print(stderr, "{}: {}\n", config_.label, again.error().message);
        return status;
      }
      fmt::print(stderr, "{} (process {}) was killed by signal {}, and is started again as process {}\n",
                 config_.label, pid, signal, *again);
      pid = *again;
    }
  }

  // Forwards messages until the work of every rank is over, then sends the messages that are still queued and
  // ends the exchange with the other launchers. Exits instead of returning if a rank's launcher is silent,
  // because PMIx_Finalize may wait for it.
  void stay_for_the_others(int status) {
    if (!board_) return;  // the launcher never began, because fork() failed
    while (!board_->is_over()) turn();
    if (const std::string refused = board_->refused(); !refused.empty())
      fmt::print(stderr, "{}: control messages refused: {}\n", config_.label, refused);
    wire_->flush(flush_within);
    std::fflush(nullptr);
    if (board_->has_silent()) {
      wire_->close(false);
      _exit(board_->is_cut_off() ? 1 : status);
    }
    const Alarm alarm(finalize_within_s, status, "");
    wire_->close(true);
  }

 private:
  int await_end(pid_t pid) {
    int status = 0;
    for (;;) {
      const pid_t reaped = waitpid(pid, &status, WNOHANG);
      if (reaped == pid) return status;
      LOCH_CHECK(reaped == 0 || errno == EINTR, "waitpid: {}", std::strerror(errno));
      turn();
    }
  }

  Result<pid_t> start_again() {
    std::array<int, 2> sockets;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
      return fail(ErrorCode::exhausted, fmt::format("socketpair: {}", std::strerror(errno)));
    const auto pid = spawn_again(sockets[1], board_->incarnation() + 1);
    close(sockets[1]);
    if (!pid) {
      close(sockets[0]);
      return pid;
    }
    child_.renew(sockets[0]);
    child_.set_process(*pid);
    supervise_instead(*pid);
    board_->child_returned();
    return pid;
  }

  Result<> meet_the_others() {
    const Nanos deadline = now_ns() + config_.setup_within;
    // share_secret() has the same deadline, and names the ranks that are missing.
    const auto seconds = static_cast<unsigned>((config_.setup_within + 999'999'999) / 1'000'000'000) + 2;
    std::optional<Alarm> alarm(std::in_place, seconds, 1,
                               fmt::format("{}: the launcher was not reached within {}\n", config_.label,
                                           format_duration(config_.setup_within)));
    LOCH_ASSIGN(std::unique_ptr<Board> board, open_board(env_));
    wire_ = std::make_unique<BoardWire>(std::move(board), env_.rank, env_.ranks);
    SwitchboardConfig config = {.rank = env_.rank,
                                .ranks = env_.ranks,
                                .host = host_name(),
                                .heartbeat = config_.heartbeat,
                                .lost_after = config_.lost_after,
                                .report = [](const std::string& line) {
                                  fmt::print(stderr, "{}\n", line);
                                  std::fflush(stderr);
                                }};
    LOCH_ASSIGN(config.secret, wire_->share_secret(deadline - now_ns()));
    alarm.reset();
    board_.emplace(config, *wire_, child_, now_ns());
    while (!board_->is_complete()) {
      if (now_ns() > deadline) {
        return fail(ErrorCode::timed_out,
                    wire_->with_trouble(fmt::format("no word within {} from rank {}",
                                                    format_duration(config_.setup_within),
                                                    fmt::join(board_->unheard_of(), ", "))));
      }
      turn();
    }
    return {};
  }

  void turn() {
    const Nanos now = now_ns();
    if (const std::string reason = wire_->failure(); !reason.empty()) {
      fmt::print(stderr, "{}: {}\n", config_.label, reason);
      std::fflush(stderr);
      _exit(1);  // kills the child too (PR_SET_PDEATHSIG)
    }
    if (board_->step(now)) last_traffic_ = now;
    wire_->push();
    child_.wait(now - last_traffic_ < often_after_traffic ? look_often : look_seldom, wire_->descriptor());
  }

  const LaunchEnv env_;
  const RankConfig config_;
  SocketChild child_;
  std::unique_ptr<BoardWire> wire_;
  std::optional<Switchboard> board_;
  Nanos last_traffic_ = 0;
};

}  // namespace

Result<RankConfig> rank_config() {
  constexpr const char* variable = "LOCH_LOST_AFTER";
  RankConfig config;
  const char* text = std::getenv(variable);
  if (text == nullptr) return config;
  LOCH_ASSIGN(config.lost_after, parse_duration(text, variable));
  if (config.lost_after <= 2 * config.heartbeat) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}={}: expected more than {}, two heartbeats", variable, text,
                            format_duration(2 * config.heartbeat)));
  }
  return config;
}

int run_as_rank(const LaunchEnv& env, const RankConfig& given, const std::function<int(Control&)>& work) {
  if (env.ranks == 1) return run_alone(work);
  RankConfig config = given;
  if (config.label.empty()) config.label = fmt::format("node {}", env.rank);
  if (const auto rejoin = read_rejoin()) return run_rejoined(env, config, *rejoin, work);
  std::array<int, 2> sockets;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    fmt::print(stderr, "{}: socketpair: {}\n", config.label, std::strerror(errno));
    return 1;
  }
  warn_of_a_frail_launch(env, config.label);
  std::optional<Launcher> launcher;
  launcher.emplace(env, config, sockets[0]);
  SuperviseConfig supervision;
  supervision.label = config.label;
  supervision.wait = [&](pid_t child) {
    close(sockets[1]);
    return launcher->accompany(child);
  };
  const int status = supervise(
      [&] {
        close(sockets[0]);
        return run_work(env, config, sockets[1], 0, work);
      },
      supervision);
  launcher->stay_for_the_others(status);
  return status;
}

}  // namespace loch::cluster
