# Event queue, cores, scheduler and power of the simulator; included by this folder's CMakeLists.txt.
loch_library(loch_sim_cpu SOURCES event_queue.cc DEPS loch_fabric)
