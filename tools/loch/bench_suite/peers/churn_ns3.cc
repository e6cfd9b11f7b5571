// The load of Loch's event_queue_bench (churn) in ns-3: 1,000 timers, each set again at a random distance
// when it fires.
#include <ns3/core-module.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

std::vector<std::uint32_t> spans;
std::uint64_t left = 0, at = 0;

void fire() {
  if (left-- == 0) return ns3::Simulator::Stop();
  ns3::Simulator::Schedule(ns3::NanoSeconds(spans[at++ % spans.size()]), &fire);
}

}  // namespace

int main(int argc, char** argv) {
  left = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  std::mt19937 random(7);
  for (int i = 0; i < 1 << 14; ++i) spans.push_back(random() % 8192);
  for (int i = 0; i < 1000; ++i)
    ns3::Simulator::Schedule(ns3::NanoSeconds(spans[at++ % spans.size()]), &fire);
  ns3::Simulator::Run();
  ns3::Simulator::Destroy();
}
