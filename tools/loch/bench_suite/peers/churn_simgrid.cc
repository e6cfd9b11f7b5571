// The load of Loch's event_queue_bench (churn) in SimGrid: 1,000 actors, each of which sleeps for random
// spans.
#include <simgrid/s4u.hpp>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace {

std::vector<double> spans;
std::uint64_t left = 0, at = 0;

void sleep_often() {
  while (left > 0) {
    --left;
    simgrid::s4u::this_actor::sleep_for(spans[at++ % spans.size()]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  left = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  // For SimGrid times less than 1 ns apart are equal; sleeps of whole microseconds keep different times
  // apart.
  std::mt19937 random(7);
  for (int i = 0; i < 1 << 14; ++i) spans.push_back(1e-6 * (1 + random() % 8191));
  simgrid::s4u::Engine engine(&argc, argv);
  simgrid::s4u::NetZone* const zone = simgrid::s4u::create_full_zone("zone");
  simgrid::s4u::Host* const host = zone->create_host("host", 1e9)->seal();
  zone->seal();
  for (int i = 0; i < 1000; ++i) simgrid::s4u::Actor::create("actor " + std::to_string(i), host, sleep_often);
  engine.run();
}
