// Tests the power model: it reproduces the two measured points on which it was calibrated, and between them
// the power depends on how many cores poll and how often idle cores wake, not on load alone.
#include "common/fabric/sim/power.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "common/fabric/sim/event_queue.h"

namespace loch::fabric::sim {
namespace {

constexpr Nanos us = 1'000, ms = 1'000'000;

// The machine of Nessie 2017: 81 W idle, 139 W with every core busy (section 6.3).
struct Machine {
  Machine() {
    cpu_profile.cores = 12;
    cpu_profile.sockets = 2;
    power.idle_w = 81;
    power.package_active_w = 9;
    power.nic_byte_nj = 0.4;
    // Watts of one busy core: the fully loaded node's 139 W minus the idle node, the sockets and the NIC,
    // divided by the cores.
    power.core_busy_w = (139 - power.idle_w - power.package_active_w * cpu_profile.sockets -
                         power.nic_byte_nj * 1e-9 * nic_bytes_s) /
                        cpu_profile.cores;
  }
  static constexpr double nic_bytes_s = 2.4e9;
  CpuProfile cpu_profile;
  PowerProfile power;
};

// Watts of a machine of which `busy` cores poll all the time and the threads of the other cores work for
// `work` in every `period`.
double watts(const Machine& machine, std::uint32_t busy, Nanos work, Nanos period, double nic_load) {
  EventQueue queue;
  NodeCpu cpu(queue, machine.cpu_profile, SchedulerProfile{}, machine.power, 1);
  struct Sleeper : Event {
    NodeCpu* cpu = nullptr;
    SimThread* thread = nullptr;
    Nanos work = 0, period = 0, next = 0;
    struct Done : Event {
      Sleeper* owner = nullptr;
    } done;
    static void on(SimThread* thread) {
      auto* const me = static_cast<Sleeper*>(thread->owner());
      me->cpu->queue().push(&me->done, me->cpu->queue().now() + me->work);
    }
  };
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  for (std::uint32_t i = 0; i < 12; ++i) {
    if (i < busy) {
      cpu.wake(cpu.add_thread({.name = "poller", .allowed = one_core(i)}));
      continue;
    }
    if (work == 0) continue;
    sleepers.push_back(std::make_unique<Sleeper>());
    Sleeper& sleeper = *sleepers.back();
    sleeper.cpu = &cpu;
    sleeper.thread =
        cpu.add_thread({.name = "sleeper", .allowed = one_core(i)}, {Sleeper::on, nullptr, &sleeper});
    sleeper.work = work;
    sleeper.period = period;
    sleeper.next = period * (i + 1) / 12;
    sleeper.done.owner = &sleeper;
    sleeper.fire = [](Event* self) {
      auto* me = static_cast<Sleeper*>(self);
      me->cpu->wake(me->thread);
    };
    sleeper.done.fire = [](Event* self) {
      Sleeper* const me = static_cast<Sleeper::Done*>(self)->owner;
      me->cpu->block(me->thread);
      me->next += me->period;
      me->cpu->queue().push(me, std::max(me->next, me->cpu->queue().now()));
    };
    queue.push(&sleeper, sleeper.next);
  }
  while (Event* event = queue.pop_until(10 * ms)) event->fire(event);
  cpu.reset_usage();
  while (Event* event = queue.pop_until(510 * ms)) event->fire(event);
  NicUsage nic;
  nic.wire_bytes = nic_load * Machine::nic_bytes_s * 0.5;
  nic.utilization = nic_load;
  return power_draw(machine.power, cpu.usage(), nic).total_w();
}

TEST(Power, MeetsTheTwoMeasuredPoints) {
  const Machine machine;
  EXPECT_NEAR(watts(machine, 0, 0, 0, 0), 81, 0.05);
  EXPECT_NEAR(watts(machine, 12, 0, 0, 1), 139, 0.05);
  EXPECT_GT(machine.power.core_busy_w, 2);
  EXPECT_LT(machine.power.core_busy_w, 5);
}

TEST(Power, GrowsWithPollingCores) {
  const Machine machine;
  double before = watts(machine, 0, 0, 0, 0);
  for (std::uint32_t busy = 1; busy <= 12; ++busy) {
    const double now = watts(machine, busy, 0, 0, 0);
    EXPECT_GT(now, before + 2);
    before = now;
  }
}

// Threads that sleep save power, but less if they wake often: deep idle states and package sleep are then
// never reached.
TEST(Power, FrequentWakingKeepsTheMachineHalfAwake) {
  const Machine machine;
  const double rare = watts(machine, 0, 1 * us, 100 * ms, 0);
  const double often = watts(machine, 0, 40 * us, 900 * us, 0);
  const double very_often = watts(machine, 0, 100 * us, 250 * us, 0);
  EXPECT_LT(rare, 82);
  // cores are busy for 4 % of the time, which would make about 84 W if power were linear in load
  EXPECT_GT(often, 90);
  EXPECT_LT(often, 110);
  EXPECT_GT(very_often, often);
  EXPECT_LT(very_often, 139);
}

// At the same load by clients, a node with two server threads that poll all the time draws more power than a
// node without server threads.
TEST(Power, PollingServersCostAtLowLoad) {
  const Machine machine;
  EXPECT_GT(watts(machine, 3, 40 * us, 900 * us, 0.2), watts(machine, 0, 40 * us, 900 * us, 0.2) + 5);
}

TEST(Power, NothingDrawsNothing) {
  EXPECT_EQ(power_draw(PowerProfile{}, CpuUsage{}, NicUsage{}).total_w(), 0);
}

}  // namespace
}  // namespace loch::fabric::sim
