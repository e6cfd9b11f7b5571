// memcached and Redis in the form of protocols, so that the load generator drives them like the RDMA stores.
#pragma once

#include <memory>
#include <vector>

#include "baselines/settings.h"
#include "common/kv/protocol.h"

namespace loch::baselines {

[[nodiscard]] std::unique_ptr<kv::Module> make_module(System system);
void add_modules(std::vector<std::unique_ptr<kv::Module>>& modules);

}  // namespace loch::baselines
