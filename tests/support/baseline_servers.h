// Helpers for tests with real memcached and Redis servers: which are installed, and fake servers that
// misbehave.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "baselines/address.h"
#include "baselines/servers.h"
#include "baselines/settings.h"

namespace loch::support {

using baselines::ServerFolder, baselines::Settings, baselines::System;

inline kv::DeployConfig config_of(std::uint32_t nodes, std::uint32_t clients, std::uint32_t window) {
  kv::DeployConfig config;
  config.nodes = nodes;
  config.client_workers = clients;
  config.window = window;
  config.server_workers = 1;
  config.key_size = 24;
  config.value_size = config.kept_value_bytes = 100;
  config.keys = config.max_keys = 200;
  return config;
}

inline Settings settings_of(System system, const kv::DeployConfig& config,
                            const std::map<std::string, std::string>& set = {}) {
  kv::Options options(option_specs(system));
  for (const auto& [key, value] : set) EXPECT_TRUE(options.set(key, value)) << key;
  auto settings = decide(system, config, options, "");
  EXPECT_TRUE(settings) << settings.error().message;
  return *settings;
}

// Why the server cannot run on this machine; empty if it can.
inline std::string missing(System system) {
  const auto folder = ServerFolder::make();
  if (!folder) return folder.error().message;
  const auto server = start_server(settings_of(system, config_of(1, 1, 1)), (*folder)->path(), 0);
  return server || server.error().code != ErrorCode::unsupported ? "" : server.error().message;
}

// Child processes of this process that were not reaped.
inline std::vector<pid_t> children() {
  std::vector<pid_t> all;
  std::ifstream in("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  for (pid_t pid = 0; in >> pid;) all.push_back(pid);
  return all;
}

// A fake server on a Unix socket: `answer` makes the reply to each received piece of text; the reply "close"
// closes the connection.
class FakeServer {
 public:
  using Answer = std::function<std::string(const std::string&)>;
  FakeServer(std::string path, Answer answer) : path_(std::move(path)), answer_(std::move(answer)) {
    listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path_.copy(at.sun_path, sizeof at.sun_path - 1);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    EXPECT_EQ(::listen(listening_, 64), 0);
    thread_ = std::thread([this] { run(); });
  }
  ~FakeServer() {
    is_ending_ = true;
    thread_.join();
    ::close(listening_);
    ::unlink(path_.c_str());
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

 private:
  void run() {
    std::vector<pollfd> all = {{.fd = listening_, .events = POLLIN, .revents = 0}};
    while (!is_ending_) {
      ::poll(all.data(), all.size(), 20);
      if ((all[0].revents & POLLIN) != 0)
        all.push_back({.fd = ::accept(listening_, nullptr, nullptr), .events = POLLIN, .revents = 0});
      for (std::size_t i = 1; i < all.size(); ++i) {
        if (all[i].revents == 0) continue;
        char buffer[65536];
        const ssize_t got = ::recv(all[i].fd, buffer, sizeof buffer, MSG_DONTWAIT);
        const std::string said =
            got > 0 ? answer_(std::string(buffer, static_cast<std::size_t>(got))) : std::string("close");
        if (said == "close") {
          ::close(all[i].fd);
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(i--));
        } else if (!said.empty()) {
          ::send(all[i].fd, said.data(), said.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
      }
    }
    for (std::size_t i = 1; i < all.size(); ++i) ::close(all[i].fd);
  }

  std::string path_;
  Answer answer_;
  int listening_ = -1;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

}  // namespace loch::support
