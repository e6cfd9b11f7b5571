// loch-bench's bench with the store of a few lines that the tests use: for tests of what happens
// between processes, whatever protocols this build has.
#include "app/cli/bench.h"
#include "tests/support/slot_store.h"

int main(int argc, char** argv) {
  loch::kv::Registry registry;
  registry.emplace("slots", loch::support::make_slot_store());
  return loch::cli::run_bench({argv + 1, argv + argc}, registry);
}
