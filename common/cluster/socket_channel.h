// A rank's two processes and the socket pair between them: the working child's end is a Channel, the
// launcher's end a ChildLink.
#pragma once

#include <sys/types.h>

#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "common/cluster/channel.h"
#include "common/cluster/frame.h"
#include "common/cluster/switchboard.h"

namespace loch::cluster {

// The child's end. Owns the socket, which is blocking.
class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(int socket) : socket_(socket) {}
  ~SocketChannel() override;
  SocketChannel(const SocketChannel&) = delete;
  SocketChannel& operator=(const SocketChannel&) = delete;

  // Waits for the launcher's first word, before start(): the host names of all ranks.
  [[nodiscard]] Result<std::vector<std::string>> await_welcome(Nanos within);
  void start(ChannelListener& listener) override;
  void stop() override;
  void send(Kind kind, std::uint32_t to, const std::string& payload) override;

 private:
  void write_whole(const Frame& frame);
  // Gives out all whole frames; false when the stream is broken.
  bool pass_on(ChannelListener& listener);

  int socket_;
  FrameReader frames_;
  std::mutex sending_;
  std::thread reader_;
};

// The launcher's end. Owns the socket and makes it non-blocking; keeps what a slow child does not take
// yet, up to a bound, beyond which messages are dropped.
class SocketChild final : public ChildLink {
 public:
  explicit SocketChild(int socket);
  ~SocketChild() override;
  SocketChild(const SocketChild&) = delete;
  SocketChild& operator=(const SocketChild&) = delete;

  void tell(const Frame& frame) override;
  std::optional<Frame> hear() override;
  void kill() override;

  // After the fork: the process that kill() ends.
  void set_process(pid_t pid) { pid_ = pid; }
  // The end of a new child's socket, in the place of the old one; what was under way is dropped.
  void renew(int socket);
  // Waits until the child has written something or takes more, or for `span`.
  void wait(Nanos span);

 private:
  void read_some();
  void write_some();

  int socket_ = -1;
  pid_t pid_ = 0;
  FrameReader frames_;
  std::string unsent_;
  std::size_t sent_ = 0;  // of unsent_
  bool is_open_ = true;
};

}  // namespace loch::cluster
