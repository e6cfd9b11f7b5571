// What LOCH_ZOO says: a machine, and how it differs from its entry.
//
//   LOCH_ZOO=mlx5-ib
//   LOCH_ZOO=mlx5-roce,delay_us=20,fail=ibv_create_qp:3:ENOMEM
//
// docs/zoo.md lists the keys.
#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "common/fabric/verbs/zoo/model.h"

namespace loch::fabric::verbs::zoo {

// The functions that can be made to fail, in the order of `call_names`. `completion` is no function: the n-th
// work request that completes does so with an error.
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
  completion,
};
inline constexpr std::size_t calls_count = static_cast<std::size_t>(Call::completion) + 1;
[[nodiscard]] std::string_view call_name(Call call);

struct Failure {
  Call call = Call::completion;
  std::uint64_t n = 1;  // counted from 1, since LOCH_ZOO was read
  int reason = 0;       // an errno; of a completion, an ibv_wc_status
};

struct Settings {
  std::string machine;               // its name
  std::vector<DeviceModel> devices;  // as they are after the keys
  std::uint64_t delay_ns = 0;        // between a post and its execution, drawn up to this
  double drop = 0;                   // of UC and UD messages, lost on the way
  std::uint64_t seed = 1;
  std::uint32_t events_per_second = 0;  // asynchronous events of no consequence
  std::uint32_t first_qpn = 64;
  std::vector<Failure> failures;
  std::string net;    // the file that the processes of one network share; "": this process alone
  std::string calls;  // where the numbers of calls are written at exit; "": nowhere
};

// Error: what is wrong and what was expected, in one line.
[[nodiscard]] std::expected<Settings, std::string> parse_settings(std::string_view text);

}  // namespace loch::fabric::verbs::zoo
