// The real servers: how each is started so that it holds the data set and evicts nothing, and asking one
// whether it is ready, and what it is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "baselines/server_process.h"
#include "baselines/settings.h"

namespace loch::baselines {

// A server's own statistics.
struct ServerFacts {
  long pid = 0;
  std::string version;
};

// Asks what listens at the address ("stats", "INFO"). The error says that nothing answers, or that it is
// something else, with the beginning of its answer. `within` bounds the whole of it.
[[nodiscard]] Result<ServerFacts> ask(System system, const Address& address, Nanos within);

// The command line of server `index` of this deployment, listening at `address` alone.
[[nodiscard]] ServerProcess::Spec command_line(const Settings& settings, const std::string& program,
                                               const Address& address, const std::string& folder,
                                               std::uint32_t index);

struct RunningServer {
  Address address;
  std::unique_ptr<ServerProcess> process;
};

// Starts server `index` and waits until it answers. A port that someone else took meanwhile is tried anew.
[[nodiscard]] Result<RunningServer> start_server(const Settings& settings, const std::string& folder,
                                                 std::uint32_t index);

}  // namespace loch::baselines
