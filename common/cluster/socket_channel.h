// The socket pair between the two processes of a rank. The working process (child) uses its end as a
// Channel, the launcher process uses the other end as a ChildLink.
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

// The child's end of the socket pair. Owns the socket, which is blocking.
class SocketChannel final : public Channel {
 public:
  explicit SocketChannel(int socket) : socket_(socket) {}
  ~SocketChannel() override;
  SocketChannel(const SocketChannel&) = delete;
  SocketChannel& operator=(const SocketChannel&) = delete;

  // Waits for the launcher's welcome frame, which has the host names of all ranks. To be called before
  // start().
  [[nodiscard]] Result<std::vector<std::string>> await_welcome(Nanos within);
  void start(ChannelListener& listener) override;
  void stop() override;
  void send(Kind kind, std::uint32_t to, const std::string& payload) override;

 private:
  void write_whole(const Frame& frame);
  // Passes all complete frames to the listener; returns false if the stream is corrupt.
  bool pass_on(ChannelListener& listener);

  int socket_;
  FrameReader frames_;
  std::mutex sending_;
  std::thread reader_;
};

// The launcher's end of the socket pair. Owns the socket and makes it non-blocking. Queues frames that a
// slow child has not read yet, up to a bound beyond which frames are dropped.
class SocketChild final : public ChildLink {
 public:
  explicit SocketChild(int socket);
  ~SocketChild() override;
  SocketChild(const SocketChild&) = delete;
  SocketChild& operator=(const SocketChild&) = delete;

  void tell(const Frame& frame) override;
  std::optional<Frame> hear() override;
  void kill() override;

  // Sets the child process that kill() kills; to be called after the fork.
  void set_process(pid_t pid) { pid_ = pid; }
  // Replaces the socket by that of a restarted child; queued frames are dropped.
  void renew(int socket);
  // Waits, for at most `span`, until the child has written something or, if frames are queued, until its
  // socket has room, or until `other`, unless it is -1, is readable.
  void wait(Nanos span, int other = -1);

 private:
  void read_some();
  void write_some();

  int socket_ = -1;
  pid_t pid_ = 0;
  FrameReader frames_;
  std::string unsent_;
  std::size_t sent_ = 0;  // number of bytes of unsent_ that were sent
  bool is_open_ = true;
};

}  // namespace loch::cluster
