# Event queue, cores, scheduler and power of the simulator; included by this folder's CMakeLists.txt.
loch_library(loch_sim_cpu
  SOURCES event_queue.cc scheduler.cc balance.cc cpu.cc cpu_usage.cc power.cc
  DEPS loch_fabric)
