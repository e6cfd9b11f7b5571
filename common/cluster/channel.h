// The interface by which a rank's control plane (Control) reaches the other ranks. A rank's working process
// has a channel over the socket to its launcher process (rank.cc); tests have one in memory, with delays and
// losses.
#pragma once

#include <cstdint>
#include <string>

#include "common/cluster/message.h"

namespace loch::cluster {

// Receives a channel's messages, and its notices that ranks were lost, have ended or were restarted. One
// thread of the channel makes all calls.
class ChannelListener {
 public:
  virtual ~ChannelListener() = default;
  // Called for each message of kind part (of a collective call) or text (of Control::send) from rank `from`;
  // messages of one sender arrive in order.
  virtual void on_arrival(Kind kind, std::uint32_t from, std::string payload) = 0;
  // Called when another rank is lost (killed or silent) or has ended, after the calls for all messages that
  // it sent; or when another rank was restarted, before the calls for messages of its new incarnation.
  virtual void on_fate(const Notice& notice) = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;
  // Begins to call `listener`, and goes on until stop(), which returns when no call is running.
  virtual void start(ChannelListener& listener) = 0;
  virtual void stop() = 0;
  // Sends a message of kind part (of a collective call) or text (of Control::send), in order per receiver.
  // Any thread may call it. A message to a rank that is lost or has ended is dropped.
  virtual void send(Kind kind, std::uint32_t to, const std::string& payload) = 0;
};

}  // namespace loch::cluster
