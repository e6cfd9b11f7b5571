// The addresses at which the ranks of other hosts may reach this one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loch::cluster {

// An IPv4 or IPv6 address of this host.
struct HostAddress {
  std::string interface;
  std::string text;        // as inet_ntop(3) writes it
  std::uint32_t bits = 0;  // length of its subnet's prefix
  bool is_loopback = false;
};

// All addresses of the interfaces that are up, without link-local ones of IPv6.
[[nodiscard]] std::vector<HostAddress> host_addresses();

// Those to be told to other ranks. `only` is a list as of mpirun's oob_tcp_if_include: names of interfaces
// and subnets such as 10.1.0.0/16, separated by commas. If it is empty, all but those of the loopback
// interface.
[[nodiscard]] std::vector<std::string> shown_addresses(const std::vector<HostAddress>& all,
                                                       std::string_view only);

// The addresses of another host in the order in which this one tries them: first those in a subnet of this
// host. Addresses that this host has itself, such as those of bridges for containers, are left out.
[[nodiscard]] std::vector<std::string> addresses_to_try(const std::vector<HostAddress>& own,
                                                        const std::vector<std::string>& of_other);

// Names this machine and its network namespace: two processes with the same name reach each other at the
// loopback addresses.
[[nodiscard]] std::string network_name();

}  // namespace loch::cluster
