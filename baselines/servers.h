// Starts memcached and Redis servers, configured to hold all records without evicting any, and asks servers
// for their process id and version.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "baselines/server_process.h"
#include "baselines/settings.h"

namespace loch::baselines {

// Statistics that a server reports about itself.
struct ServerFacts {
  long pid = 0;
  std::string version;
};

// Asks the server at the address for its statistics ("stats", "INFO"), within `within` ns. The error says
// that nothing answers, or that something other than this server answers, with the beginning of its answer.
[[nodiscard]] Result<ServerFacts> ask(System system, const Address& address, Nanos within);

// The command line of server `index` of this deployment, which listens at `address` only.
[[nodiscard]] ServerProcess::Spec command_line(const Settings& settings, const std::string& program,
                                               const Address& address, const std::string& folder,
                                               std::uint32_t index);

struct RunningServer {
  Address address;
  std::unique_ptr<ServerProcess> process;
};

// Starts server `index` and waits until it answers. If another program takes its port meanwhile, tries
// another port.
[[nodiscard]] Result<RunningServer> start_server(const Settings& settings, const std::string& folder,
                                                 std::uint32_t index);

}  // namespace loch::baselines
