// Options for checking the histories of a protocol, by the consistency model that the protocol's module
// claims.
#pragma once

#include "common/check/linearizable.h"
#include "common/kv/protocol.h"

namespace loch::cli {

[[nodiscard]] check::CheckOptions judging(const kv::Module& module, const kv::Options& options,
                                          check::Initial initial);

}  // namespace loch::cli
