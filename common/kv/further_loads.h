// Stores that serve one load after another, without being deployed and preloaded anew for each.
#pragma once

#include <string_view>
#include <vector>

namespace loch::kv {

// A Store that also has this base can serve a further load of GETs and PUTs of the preloaded keys when a run
// of the fabric has ended. Each load has new main coroutines of the server workers and new clients, on the
// same workers and memory; Store::counters() go on counting. Numbers of requests go on too, or begin anew in
// such a way that no reply to an earlier load's request is taken for a new one, and no request of an earlier
// load that is still in its slot is executed again.
class FurtherLoads {
 public:
  virtual ~FurtherLoads() = default;
  // Whether this deployment can do so. Asked after the preload.
  [[nodiscard]] virtual bool serves_further_loads() const { return true; }
  // The names of those Store::counters() that tell a state of the store ("cache_entries") instead of how
  // often something has happened.
  [[nodiscard]] virtual std::vector<std::string_view> levels() const { return {}; }

 protected:
  FurtherLoads() = default;
  FurtherLoads(const FurtherLoads&) = default;
  FurtherLoads& operator=(const FurtherLoads&) = default;
};

}  // namespace loch::kv
