// Options for checking a protocol's histories: the consistency model is the one that its module claims.
#pragma once

#include "common/check/linearizable.h"
#include "common/kv/protocol.h"

namespace loch::cli {

[[nodiscard]] check::CheckOptions judging(const kv::Module& module, const kv::Options& options,
                                          check::Initial initial);

}  // namespace loch::cli
