// loch-bench's bench with the toy store of the tests, for tests of multi-process runs that need no protocol
// of the build.
#include "app/cli/bench.h"
#include "tests/support/slot_store.h"

int main(int argc, char** argv) {
  loch::kv::Registry registry;
  registry.emplace("slots", loch::support::make_slot_store());
  return loch::cli::run_bench({argv + 1, argv + argc}, registry);
}
