// Defines the names of verbs and statuses, and the checks that all fabrics share: of a protocol's
// requirements, and of accesses to bytes that a region does not store.
#include "common/fabric/fabric.h"

#include <fmt/format.h>

namespace loch::fabric {

std::string_view name(Transport transport) {
  switch (transport) {
    case Transport::rc:
      return "RC";
    case Transport::uc:
      return "UC";
    case Transport::ud:
      return "UD";
  }
  return "?";
}

std::string_view name(Verb verb) {
  switch (verb) {
    case Verb::read:
      return "READ";
    case Verb::write:
      return "WRITE";
    case Verb::cas:
      return "CAS";
    case Verb::faa:
      return "FAA";
    case Verb::send:
      return "SEND";
    case Verb::recv:
      return "RECV";
  }
  return "?";
}

std::string_view name(WcStatus status) {
  switch (status) {
    case WcStatus::success:
      return "success";
    case WcStatus::flushed:
      return "flushed";
    case WcStatus::retry_exceeded:
      return "retry exceeded";
    case WcStatus::rnr_exceeded:
      return "receiver not ready";
    case WcStatus::remote_access:
      return "remote access error";
    case WcStatus::local_error:
      return "local error";
  }
  return "?";
}

std::string_view name(Order order) {
  switch (order) {
    case Order::none:
      return "none";
    case Order::waits:
      return "waits";
    case Order::device:
      return "device";
  }
  return "?";
}

void Region::refuse_elided(std::uint64_t within) const {
  check_failed(__FILE__, __LINE__, "the byte is kept",
               fmt::format("byte {} of an entry of region {} is elided", within, name_));
}

Result<> check(const Requirements& needs, const Capabilities& has) {
  const auto refuse = [&](std::string what) {
    return fail(ErrorCode::unsupported, fmt::format("{} ({}) {}", has.fabric, has.device, std::move(what)));
  };
  if (needs.rc && !has.rc) return refuse("has no reliable connections (RC)");
  if (needs.uc && !has.uc) return refuse("has no unreliable connections (UC)");
  if (needs.ud && !has.ud) return refuse("has no unreliable datagrams (UD)");
  if ((needs.receives_rc || needs.receives_uc) && !has.receives_connected)
    return refuse("has no shared receive queues, which SENDs over RC and UC need here");
  if (needs.atomic_scope > has.atomic_scope)
    return refuse("has no atomics of the scope that the protocol needs");
  if (needs.untorn_bytes > has.untorn_bytes) {
    return refuse(fmt::format("keeps only {} bytes untorn; the protocol needs {}", has.untorn_bytes,
                              needs.untorn_bytes));
  }
  if (needs.in_order_placement && !has.in_order_placement) {
    return refuse("does not place the bytes of a message in order");
  }
  if (needs.rc && needs.write_then_read && has.write_then_read == Order::none)
    return refuse("lets a READ overtake the WRITE before it (write_then_read)");
  if (needs.rc && needs.write_then_atomic && has.write_then_atomic == Order::none)
    return refuse("lets an atomic overtake the WRITE before it (write_then_atomic)");
  if (needs.max_inline_bytes > has.max_inline_bytes) {
    return refuse(
        fmt::format("inlines {} bytes; the protocol needs {}", has.max_inline_bytes, needs.max_inline_bytes));
  }
  if (needs.request_lifetime_below != 0 && has.request_lifetime >= needs.request_lifetime_below) {
    return refuse(fmt::format(
        "may execute a request {} after it was posted; with these options the protocol bears less than {}",
        format_duration(has.request_lifetime), format_duration(needs.request_lifetime_below)));
  }
  if (needs.max_rd_atomic > has.max_rd_atomic) {
    return refuse(fmt::format("allows {} outstanding READs; the protocol needs {}", has.max_rd_atomic,
                              needs.max_rd_atomic));
  }
  return {};
}

void Worker::attribute(const Received& message, Transport transport, OpStats* stats) {
  if (stats == nullptr) return;
  ++stats->recv;
  WorkRequest arrived;
  arrived.verb = Verb::send;
  arrived.transport = transport;
  arrived.peer = message.from;
  arrived.length = message.length;
  arrived.has_immediate = message.has_immediate;
  arrived.stats = stats;
  attribute(arrived);
}

}  // namespace loch::fabric
