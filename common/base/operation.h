// The kinds of operations of a key-value store and how they end, as used by protocols, histories, results
// and explorations. All types are plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace loch {

// The kind of an operation that a client requests. insert_if_absent stores a value only if the key is absent;
// if the key is present, it returns `exists` and changes nothing. `lost` is no request: in a history it marks
// the time at which a node was declared lost together with its memory, so that keys may have disappeared.
enum class OpKind : std::uint8_t { get, put, remove, insert_if_absent, lost };
// The kinds of operations that clients request. Their values in OpKind begin at 0, so that an array of
// op_kinds elements can be indexed by kind.
constexpr std::array client_kinds = {OpKind::get, OpKind::put, OpKind::remove, OpKind::insert_if_absent};
constexpr std::size_t op_kinds = client_kinds.size();
static_assert(op_kinds == static_cast<std::size_t>(OpKind::lost));
// Whether a request of this kind carries a value: PUT and INSERT do.
[[nodiscard]] constexpr bool brings_value(OpKind kind) {
  return kind == OpKind::put || kind == OpKind::insert_if_absent;
}
[[nodiscard]] std::string_view name(
    OpKind kind);  // name in files: "get", "put", "delete", "insert_if_absent", "lost"
[[nodiscard]] std::string_view capital_name(
    OpKind kind);  // name in the papers' spelling: "GET", "PUT", "DELETE", "INSERT", "LOST"

// The status with which an operation returned to its client.
enum class OpStatus : std::uint8_t {
  ok,
  not_found,
  conflict,    // the client gave up after its last retry, because other operations interfered
  timeout,     // the operation did not end within its expiry period
  table_full,  // no free slot was found for the key: the table has to be enlarged
  error,       // a connection to a server failed
  exists,      // an INSERT found the key present and changed nothing
};
constexpr std::size_t op_statuses = static_cast<std::size_t>(OpStatus::exists) + 1;
[[nodiscard]] std::string_view name(OpStatus status);  // the status in files: "ok", "not_found", …
[[nodiscard]] constexpr bool is_completed(OpStatus status) {
  return status == OpStatus::ok || status == OpStatus::not_found || status == OpStatus::exists;
}

// Whether an operation that did not complete (is_completed) certainly had no effect (none), or may have
// had one (unknown).
enum class Effect : std::uint8_t { none, unknown };

// The outcome of an operation in a history: what the linearizability checker may conclude from its status
// and effect.
enum class Outcome : std::uint8_t {
  ok,
  not_found,  // a GET or DELETE found the key absent
  failed,     // the operation has no effect, now or later
  unknown,    // the operation may have taken effect, may yet do so at any later time, or never does
  exists,     // an INSERT found the key present
};
[[nodiscard]] std::string_view name(Outcome outcome);  // name in files: "ok", "not_found", …
[[nodiscard]] Outcome outcome_of(OpKind kind, OpStatus status, Effect effect);

}  // namespace loch
