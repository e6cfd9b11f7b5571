// The board (board.h) of the ranks that mpirun has started: a TCP connection between each two launcher
// processes. Where each of them listens, its first text to all others, and the token that a connection to it
// has to begin with are on a bulletin (bulletin.h), which vouches for whose they are.
//
// Everything is done in take(), post() and close(), without a thread and without waiting for another rank.
#pragma once

#include <memory>
#include <string_view>

#include "common/base/result.h"
#include "common/cluster/board.h"
#include "common/cluster/bulletin.h"

namespace loch::cluster {

struct TcpBoardConfig {
  std::uint32_t rank = 0, ranks = 1;
  // The interfaces and subnets to be reached at, as of mpirun's oob_tcp_if_include; empty: all.
  std::string_view only;
};

[[nodiscard]] Result<std::unique_ptr<Board>> open_tcp_board(const TcpBoardConfig& config,
                                                            std::unique_ptr<Bulletin> bulletin);

}  // namespace loch::cluster
