// A board (a place where launcher processes leave items for each other) in a folder that all hosts of a
// launch share: an item is a file, in a folder of its receiver. The file gets its final name once it is
// written completely; the receiver removes it.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "common/cluster/board.h"

namespace loch::cluster {

// Opens the board for `rank`, and makes its folder if it is missing. Only its owner may enter the folder; one
// that others may write to, or that belongs to another user, is refused.
[[nodiscard]] Result<std::unique_ptr<Board>> open_folder_board(const std::string& folder, std::uint32_t rank);

}  // namespace loch::cluster
