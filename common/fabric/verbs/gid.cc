// Scores the GIDs (RDMA port addresses) of a port, so that the best can be chosen.
#include "common/fabric/verbs/gid.h"

#include <arpa/inet.h>

#include <algorithm>

namespace loch::fabric::verbs {

bool is_ipv4(const Gid& gid) {
  return std::ranges::all_of(gid.begin(), gid.begin() + 10, [](auto byte) { return byte == 0; }) &&
         gid[10] == 0xff && gid[11] == 0xff;
}

bool is_link_local(const Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

std::string to_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = {};
  if (is_ipv4(gid)) {
    inet_ntop(AF_INET, gid.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid.data(), text, sizeof text);
  }
  return text;
}

int score(const GidEntry& entry) {
  if (entry.gid == Gid{}) return 0;
  if (entry.kind == GidKind::infiniband) return 1;
  const int address = is_ipv4(entry.gid) ? 3 : is_link_local(entry.gid) ? 1 : 2;
  return address + (entry.kind == GidKind::roce_v2 ? 3 : 0);
}

}  // namespace loch::fabric::verbs
