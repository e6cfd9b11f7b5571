// How a Control reaches the other ranks: the least that meetings need. A rank's process has one over
// the socket to its launcher process (rank.cc); tests have one in memory, with delays and losses.
#pragma once

#include <cstdint>
#include <string>

#include "common/cluster/message.h"

namespace loch::cluster {

// Hears what comes in. Called by one thread of the channel, never two at once.
class ChannelListener {
 public:
  virtual ~ChannelListener() = default;
  // A Kind::part or Kind::text of another rank; in order per sender.
  virtual void on_arrival(Kind kind, std::uint32_t from, std::string payload) = 0;
  // A rank is lost (killed, silent) or has ended: after all that it has sent. Or it is back, before all
  // that its new incarnation sends.
  virtual void on_fate(const Notice& notice) = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;
  // From now on `listener` is called; until stop(), which returns when no call is running.
  virtual void start(ChannelListener& listener) = 0;
  virtual void stop() = 0;
  // Any thread; part or text only. In order per receiver; to a rank that is gone, nothing happens.
  virtual void send(Kind kind, std::uint32_t to, const std::string& payload) = 0;
};

}  // namespace loch::cluster
