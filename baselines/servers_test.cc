// Tests that real servers can be started, asked and stopped, and that they end when the process that started
// them dies.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "baselines/loader.h"
#include "baselines/servers.h"
#include "tests/support/baseline_servers.h"

namespace loch::baselines {
namespace {

using support::config_of;
using support::FakeServer;
using support::settings_of;

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0; }

bool goes_away(pid_t pid) {
  const Nanos until = monotonic_now() + 5'000'000'000;
  while (!is_gone(pid)) {
    if (monotonic_now() > until) return false;
    ::usleep(2'000);
  }
  return true;
}

class RealServer : public ::testing::TestWithParam<System> {
 protected:
  void SetUp() override {
    if (const std::string why = support::missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
    auto folder = ServerFolder::make();
    ASSERT_TRUE(folder);
    folder_ = std::move(*folder);
  }
  [[nodiscard]] Settings settings(const std::string& socket) const {
    return settings_of(GetParam(), config_of(2, 1, 1), {{std::string(name(GetParam())) + ".socket", socket}});
  }
  std::unique_ptr<ServerFolder> folder_;
};

TEST_P(RealServer, IsStartedAndAskedAndStopped) {
  for (const std::string socket : {"unix", "loopback"}) {
    pid_t pid = 0;
    {
      auto server = start_server(settings(socket), folder_->path(), 0);
      ASSERT_TRUE(server) << server.error().message;
      pid = server->process->pid();
      EXPECT_EQ(server->address.is_unix(), socket == "unix");
      if (socket == "loopback") EXPECT_EQ(server->address.host, "127.0.0.1");
      const auto facts = ask(GetParam(), server->address, 2'000'000'000);
      ASSERT_TRUE(facts) << facts.error().message;
      EXPECT_EQ(facts->pid, pid);
      EXPECT_FALSE(facts->version.empty());
      EXPECT_TRUE(server->process->is_alive());
    }
    EXPECT_TRUE(is_gone(pid));
  }
}

// The server accepts no connections from other machines.
TEST_P(RealServer, ListensOnLoopbackOrAUnixSocketAlone) {
  for (const std::string socket : {"unix", "loopback"}) {
    auto server = start_server(settings(socket), folder_->path(), 1);
    ASSERT_TRUE(server) << server.error().message;
    std::set<std::string> inodes;
    std::error_code ignored;
    for (const auto& fd :
         std::filesystem::directory_iterator("/proc/" + std::to_string(server->process->pid()) + "/fd")) {
      const std::string link = std::filesystem::read_symlink(fd.path(), ignored).string();
      if (link.starts_with("socket:[")) inodes.insert(link.substr(8, link.size() - 9));
    }
    int listening = 0;
    for (const char* table : {"tcp", "tcp6", "udp", "udp6"}) {
      std::ifstream in(std::string("/proc/net/") + table);
      std::string line;
      while (std::getline(in, line)) {
        std::istringstream fields(line);
        std::string slot, local, remote, state, skip, inode;
        fields >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
        if (!inodes.contains(inode) || (state != "0A" && std::string_view(table).starts_with("tcp")))
          continue;
        ++listening;
        EXPECT_TRUE(local.starts_with("0100007F:")) << table << " " << local;
      }
    }
    EXPECT_EQ(listening, socket == "unix" ? 0 : 1);
  }
}

TEST_P(RealServer, DiesWithWhoeverStartedIt) {
  int report[2];
  ASSERT_EQ(::pipe(report), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto server = start_server(settings("unix"), folder_->path(), 2);
    const pid_t pid = server ? server->process->pid() : 0;
    [[maybe_unused]] const auto told = ::write(report[1], &pid, sizeof pid);
    ::raise(SIGKILL);
  }
  pid_t server = 0;
  ASSERT_EQ(::read(report[0], &server, sizeof server), static_cast<ssize_t>(sizeof server));
  ::waitpid(parent, nullptr, 0);
  ASSERT_GT(server, 0);
  EXPECT_TRUE(goes_away(server));
  // Starting another server removes the folder that the killed process left behind.
  ::close(report[0]);
  ::close(report[1]);
}

TEST_P(RealServer, HoldsWhatWasLoadedAndRefusesWhatDoesNotFit) {
  Settings s = settings("unix");
  s.memory_bytes = 8 << 20;
  auto server = start_server(s, folder_->path(), 3);
  ASSERT_TRUE(server) << server.error().message;
  auto loader = Loader::connect(GetParam(), server->address, 5'000'000'000);
  ASSERT_TRUE(loader) << loader.error().message;
  const std::vector<std::byte> value(20'000, std::byte{'v'});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE((*loader)->put("key" + std::to_string(i), value));
  ASSERT_TRUE((*loader)->finish());
  Result<> full;
  for (int i = 0; i < 4'000 && full; ++i) full = (*loader)->put("more" + std::to_string(i), value);
  if (full) full = (*loader)->finish();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::exhausted) << full.error().message;
  EXPECT_NE(full.error().message.find(".memory"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Both, RealServer, ::testing::Values(System::memcached, System::redis),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(Start, AProgramThatEndsAtOnceIsToldWithItsLastWords) {
  const auto folder = ServerFolder::make();
  ASSERT_TRUE(folder);
  const std::string script = (*folder)->path() + "/script";
  std::ofstream(script) << "#!/bin/sh\necho this will not do >&2\nexit 3\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Settings s = settings_of(System::memcached, config_of(1, 1, 1), {{"memcached.binary", script}});
  const auto server = start_server(s, (*folder)->path(), 0);
  ASSERT_FALSE(server);
  EXPECT_NE(server.error().message.find("status 3: this will not do"), std::string::npos)
      << server.error().message;
}

TEST(Start, AProgramThatNeverListensIsGivenUpAndStopped) {
  const auto folder = ServerFolder::make();
  ASSERT_TRUE(folder);
  const std::string script = (*folder)->path() + "/script";
  std::ofstream(script) << "#!/bin/sh\nexec sleep 600\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Settings s = settings_of(System::redis, config_of(1, 1, 1),
                           {{"redis.binary", script}, {"redis.start-timeout", "200ms"}});
  const auto before = support::children();
  const auto server = start_server(s, (*folder)->path(), 0);
  ASSERT_FALSE(server);
  EXPECT_EQ(server.error().code, ErrorCode::timed_out);
  EXPECT_EQ(support::children(), before);
}

TEST(Ask, SaysWhatIsWrongWithAnAddress) {
  const auto folder = ServerFolder::make();
  ASSERT_TRUE(folder);
  const Address nobody{"", 0, (*folder)->path() + "/none.sock"};
  const auto none = ask(System::memcached, nobody, 1'000'000'000);
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("nothing answers there"), std::string::npos);
  const auto port = free_port();
  ASSERT_TRUE(port);
  EXPECT_FALSE(ask(System::redis, Address{"127.0.0.1", *port, ""}, 1'000'000'000));

  const Address at{"", 0, (*folder)->path() + "/fake.sock"};
  {
    const FakeServer other(at.path, [](const std::string&) { return "HTTP/1.1 400 Bad Request\r\n\r\n"; });
    for (const System system : {System::memcached, System::redis}) {
      const auto facts = ask(system, at, 300'000'000);
      ASSERT_FALSE(facts);
      EXPECT_NE(facts.error().message.find("HTTP/1.1 400 Bad Request"), std::string::npos)
          << facts.error().message;
    }
  }
  {
    const FakeServer mute(at.path, [](const std::string&) { return ""; });
    const Nanos begun = monotonic_now();
    EXPECT_EQ(ask(System::memcached, at, 300'000'000).error().code, ErrorCode::timed_out);
    EXPECT_LT(monotonic_now() - begun, 2'000'000'000);
  }
  {
    const FakeServer endless(at.path, [](const std::string&) { return std::string(60'000, 'x'); });
    EXPECT_FALSE(ask(System::redis, at, 300'000'000));
  }
}

TEST(ServerFolderOf, ADeadProcessIsRemoved) {
  std::string left;
  {
    int report[2];
    ASSERT_EQ(::pipe(report), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto folder = ServerFolder::make();
      const std::string path = folder ? (*folder)->path() : "";
      [[maybe_unused]] const auto told = ::write(report[1], path.data(), path.size());
      ::raise(SIGKILL);
    }
    char path[200];
    const ssize_t size = ::read(report[0], path, sizeof path);
    ::waitpid(child, nullptr, 0);
    ASSERT_GT(size, 0);
    left.assign(path, static_cast<std::size_t>(size));
    ::close(report[0]);
    ::close(report[1]);
  }
  ASSERT_TRUE(std::filesystem::exists(left));
  std::string mine;
  {
    const auto folder = ServerFolder::make();
    ASSERT_TRUE(folder);
    mine = (*folder)->path();
    EXPECT_TRUE(std::filesystem::exists(mine));
  }
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_FALSE(std::filesystem::exists(mine));
}

}  // namespace
}  // namespace loch::baselines
