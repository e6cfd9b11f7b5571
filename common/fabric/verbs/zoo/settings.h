// The settings of the emulated NICs, from the environment variable LOCH_ZOO: the name of an emulated machine,
// then keys that change properties of its devices or make calls fail.
//
//   LOCH_ZOO=mlx5-ib
//   LOCH_ZOO=mlx5-roce,delay_us=20,fail=ibv_create_qp:3:ENOMEM
//
// docs/zoo.md lists the keys.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/verbs/zoo/model.h"

namespace loch::fabric::verbs::zoo {

// What can be made to fail, in the order of `call_names`: functions of libibverbs, and two kinds of event. A
// `request` that fails is refused when it is posted; the earlier requests of its chain are accepted. A
// `completion` that fails has an error status, although its request was executed.
enum class Call : std::uint8_t {
  get_device_list,
  open_device,
  query_device,
  query_port,
  query_gid_table,
  query_gid,
  query_pkey,
  alloc_pd,
  reg_mr,
  create_cq,
  create_srq,
  create_qp,
  modify_qp,
  create_ah,
  query_qp_data_in_order,
  post_send,
  post_recv,
  post_srq_recv,
  poll_cq,
  alloc_td,
  alloc_parent_domain,
  create_cq_ex,
  create_qp_ex,
  wr_complete,
  request,
  completion,
};
inline constexpr std::size_t calls_count = static_cast<std::size_t>(Call::completion) + 1;
[[nodiscard]] std::string_view call_name(Call call);

struct Failure {
  Call call = Call::completion;
  std::uint64_t n = 1;  // which call fails, counted from 1 since LOCH_ZOO was read
  int reason = 0;       // an errno; for a completion, an ibv_wc_status
};

// An asynchronous event that the emulated device is to raise.
struct Raise {
  ibv_event_type type = IBV_EVENT_PORT_ERR;
  // the event is raised when this many requests have succeeded
  std::uint64_t n = 1;
  // Index of the device whose requests are counted; if not set, all requests count, and the device of the
  // n-th raises the event.
  std::optional<std::size_t> device;
};

struct Settings {
  std::string machine;               // name of the emulated machine
  std::vector<DeviceModel> devices;  // the machine's devices, after the changes that LOCH_ZOO asks for
  std::uint64_t delay_ns = 0;        // upper bound in ns of each request's random delay before execution
  // ns from the execution of an RC request of another process to its reply
  std::uint64_t reply_late_ns = 0;
  double drop = 0;  // probability that a UC or UD message is lost
  std::uint64_t seed = 1;
  std::uint32_t events_per_second = 0;  // rate of harmless asynchronous events that the NIC thread raises
  std::uint32_t first_qpn = 64;
  std::vector<Failure> failures;
  std::vector<Raise> raises;
  std::uint64_t swallow = 0;        // the completion with this number and all later ones are dropped; 0: none
  std::string net;                  // file that the processes of one network share; "": no other processes
  std::string counters;             // folder for files of error counters, named as in sysfs; "": none
  std::uint32_t counter_start = 0;  // first value of the counters of transport errors
  std::string calls;  // file for the number of calls of each function, written at exit; "": none
};

// Parses the value of the environment variable LOCH_ZOO, which chooses the emulated devices. The error says
// in one line what is wrong and what was expected.
[[nodiscard]] std::expected<Settings, std::string> parse_settings(std::string_view text);

}  // namespace loch::fabric::verbs::zoo
