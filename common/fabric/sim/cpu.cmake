# Event queue, cores, scheduler and power of the simulator; included by this folder's CMakeLists.txt.
loch_library(loch_sim_cpu
  SOURCES event_queue.cc scheduler.cc balance.cc cpu.cc cpu_usage.cc power.cc
  DEPS loch_fabric)
loch_test(sim_cpu_test
  SOURCES event_queue_test.cc cpu_test.cc power_test.cc scheduler_costs_test.cc
  DEPS loch_sim_cpu
  LABELS quick sanitize)
loch_benchmark(event_queue_bench SOURCES event_queue_bench.cc DEPS loch_sim_cpu)
