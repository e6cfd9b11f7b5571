// Builds the command lines of memcached and redis-server, waits until a server answers, and reads its
// statistics.
#include "baselines/servers.h"

#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace loch::baselines {
namespace {

constexpr std::size_t longest_answer = 64 * 1024;

// The beginning of a server's answer, with control characters replaced, for an error message of one line.
std::string shown(std::string_view answer) {
  std::string text;
  for (const char c : answer.substr(0, 40)) {
    if (c == '\r' || c == '\n') break;
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text;
}

// The number or word that follows `key` on its line; empty if the key is missing.
std::string_view field(std::string_view answer, std::string_view key) {
  const auto at = answer.find(key);
  if (at == std::string_view::npos) return {};
  answer.remove_prefix(at + key.size());
  return answer.substr(0, answer.find_first_of("\r\n"));
}

// Whether the server's answer has arrived as a whole.
bool is_whole(System system, std::string_view answer) {
  if (system == System::memcached) return answer.ends_with("END\r\n") || answer.ends_with("ERROR\r\n");
  if (!answer.starts_with('$')) return answer.ends_with("\r\n");
  std::size_t length = 0;
  const auto line = answer.find("\r\n");
  if (line == std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(answer.data() + 1, answer.data() + line, length);
  return error != std::errc{} || answer.size() >= line + 4 + length;
}

Result<std::string> converse(int fd, System system, Nanos until) {
  const std::string_view question = system == System::memcached ? "stats\r\n" : "INFO server\r\n";
  if (::send(fd, question.data(), question.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(question.size()))
    return fail(ErrorCode::unavailable, std::strerror(errno));
  std::string answer;
  char buffer[4096];
  while (!is_whole(system, answer) && answer.size() < longest_answer) {
    const Nanos left = until - monotonic_now();
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left / 1'000'000 + 1)) == 0) {
      return fail(ErrorCode::timed_out,
                  answer.empty() ? "it takes connections and says nothing"
                                 : fmt::format("it stopped in the middle of \"{}\"", shown(answer)));
    }
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) break;
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  return answer;
}

std::string user_name() {
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr ? user->pw_name : "root";
}

std::vector<std::string> memcached_arguments(const Settings& s, const Address& at) {
  std::vector<std::string> out = {"memcached"};
  const auto add = [&](std::initializer_list<std::string> more) { out.insert(out.end(), more); };
  if (at.is_unix())
    add({"-s", at.path, "-a", "0700"});
  else
    add({"-l", at.host, "-p", std::to_string(at.port), "-U", "0"});
  const std::uint64_t connections = std::uint64_t{s.config.nodes} * s.config.client_workers * s.config.window;
  // memcached's largest item is 1 MiB unless -I allows more, in whole MiB; the server's memory (-m) has to be
  // at least twice the largest item's size.
  const std::uint64_t item = (std::uint64_t{s.config.key_size} + s.config.value_size + 1024) * 9 / 8;
  const std::uint64_t item_mib = (item >> 20) + 1;
  const std::uint64_t memory_mib = std::max((s.memory_bytes >> 20) + 1, 2 * item_mib);
  // With -M, memcached refuses a PUT when its memory is full, instead of evicting a record.
  add({"-M", "-t", std::to_string(s.threads), "-m", std::to_string(memory_mib), "-c",
       std::to_string(connections + 64)});
  if (item_mib > 1) add({"-I", std::to_string(item_mib << 20)});
  if (::geteuid() == 0) add({"-u", user_name()});  // memcached refuses to run as root without a user name
  return out;
}

std::vector<std::string> redis_arguments(const Settings& s, const Address& at, const std::string& folder) {
  std::vector<std::string> out = {"redis-server"};
  const auto add = [&](std::initializer_list<std::string> more) { out.insert(out.end(), more); };
  if (at.is_unix())
    add({"--port", "0", "--unixsocket", at.path, "--unixsocketperm", "700"});
  else
    add({"--bind", at.host, "--port", std::to_string(at.port)});
  const std::uint64_t connections = std::uint64_t{s.config.nodes} * s.config.client_workers;
  // Redis runs without persistence and refuses a PUT when its memory is full.
  add({"--save", "", "--appendonly", "no", "--maxmemory", std::to_string(s.memory_bytes),
       "--maxmemory-policy", "noeviction", "--maxclients", std::to_string(connections + 64), "--dir", folder,
       "--daemonize", "no", "--loglevel", "warning"});
  return out;
}

Result<> await_ready(const Settings& s, RunningServer& server) {
  const Nanos until = monotonic_now() + s.start_timeout;
  Result<ServerFacts> facts = fail(ErrorCode::unavailable, "");
  while (true) {
    if (!server.process->is_alive()) return fail(ErrorCode::unavailable, server.process->last_words());
    const Nanos now = monotonic_now();
    facts = ask(s.system, server.address, std::min<Nanos>(1'000'000'000, std::max<Nanos>(1, until - now)));
    if (facts && facts->pid == server.process->pid()) return {};
    if (now >= until) {
      return fail(ErrorCode::timed_out,
                  facts ? fmt::format("process {} listens there", facts->pid) : facts.error().message);
    }
    const timespec nap{0, 5'000'000};
    ::nanosleep(&nap, nullptr);
  }
}

}  // namespace

Result<ServerFacts> ask(System system, const Address& address, Nanos within) {
  const Nanos until = monotonic_now() + within;
  auto fd = connect_to(address, within);
  if (!fd) {
    return fail(ErrorCode::unavailable, fmt::format("nothing answers there ({})", fd.error().message));
  }
  auto answer = converse(*fd, system, until);
  ::close(*fd);
  if (!answer) return std::unexpected(std::move(answer.error()));
  const bool is_memcached = system == System::memcached;
  ServerFacts facts;
  const std::string_view pid = field(*answer, is_memcached ? "STAT pid " : "process_id:");
  facts.version = field(*answer, is_memcached ? "STAT version " : "redis_version:");
  std::from_chars(pid.data(), pid.data() + pid.size(), facts.pid);
  if (facts.pid == 0 || facts.version.empty()) {
    return fail(ErrorCode::unavailable,
                fmt::format("what answers there is no {}: \"{}\"", name(system), shown(*answer)));
  }
  return facts;
}

ServerProcess::Spec command_line(const Settings& settings, const std::string& program, const Address& address,
                                 const std::string& folder, std::uint32_t index) {
  return {.program = program,
          .arguments = settings.system == System::memcached ? memcached_arguments(settings, address)
                                                            : redis_arguments(settings, address, folder),
          .log = fmt::format("{}/{}.log", folder, index)};
}

Result<RunningServer> start_server(const Settings& settings, const std::string& folder, std::uint32_t index) {
#ifdef LOCH_SERVERS_DIR
  const std::string beside = LOCH_SERVERS_DIR;
#else
  const std::string beside;
#endif
  const bool is_memcached = settings.system == System::memcached;
  // Debian's redis-check-rdb is the same program as redis-server, under another name.
  LOCH_ASSIGN(const std::string program,
              find_program(settings.binary,
                           is_memcached ? std::vector<std::string>{"memcached"}
                                        : std::vector<std::string>{"redis-server", "redis-check-rdb"},
                           beside, settings.flag("binary"), is_memcached ? "memcached" : "redis-tools"));
  constexpr int tries = 5;
  for (int i = 1;; ++i) {
    RunningServer server;
    if (settings.is_unix) {
      server.address.path = fmt::format("{}/{}.sock", folder, index);
    } else {
      server.address.host = "127.0.0.1";
      LOCH_ASSIGN(server.address.port, free_port());
    }
    LOCH_ASSIGN(server.process,
                ServerProcess::start(command_line(settings, program, server.address, folder, index)));
    const auto ready = await_ready(settings, server);
    if (ready) return server;
    // Another program may have taken the port after it was found free, so try another port.
    if (settings.is_unix || i == tries || ready.error().code == ErrorCode::timed_out) {
      return fail(ready.error().code, fmt::format("{} at {} did not become ready: {}", program,
                                                  server.address.text(), ready.error().message));
    }
  }
}

}  // namespace loch::baselines
