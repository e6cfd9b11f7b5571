// The command bench of loch-bench with the tests' toy store as its only protocol, for tests of multi-process
// runs that must not depend on which protocols were built.
#include "app/cli/bench.h"
#include "tests/support/slot_store.h"

int main(int argc, char** argv) {
  loch::kv::Registry registry;
  registry.emplace("slots", loch::support::make_slot_store());
  return loch::cli::run_bench({argv + 1, argv + argc}, registry);
}
