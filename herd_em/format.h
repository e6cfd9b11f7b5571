// How a request lies in its slot.
//
//   2014, published    | unused | VALUE V | LEN 2 | KEY 16 |      right-aligned in 1 KB; a GET is KEY alone.
//                      New is a slot whose last 8-byte word has a low byte other than 0; the server zeroes
//                      that word and LEN when it fetches the request. LEN 0xFFFF: a DELETE.
//   2016, published    | KEY 16 | opcode 1 | length 1 | VALUE V | unused |      64 B; GET 111, PUT 112,
//   DELETE 113, INSERT 114 (with a trailer).
//                      New is an opcode of at least 111; the server zeroes its word.
//   fixed, both        | unused | the same bytes | trailer 8 |                  right-aligned
//
// The trailer is that of common/rpc/frame.h: sequence number, attempt, operation, check.
//
// When a fixed request is here: if it lies in one cache line and the fabric places lines as a whole, when
// its trailer is; else when the trailer's check fits. In-order placement would not do: UC may lose a part.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/fabric/fabric.h"
#include "common/rpc/frame.h"
#include "herd_em/keyhash.h"

namespace loch::herd {

enum class Layout : std::uint8_t { y2014, y2016 };
// insert_if_absent: of requests with a trailer, laid out as a PUT (fixed variant alone).
enum class Op : std::uint8_t { none = 0, get = 1, put = 2, remove = 3, insert_if_absent = 4 };
[[nodiscard]] constexpr bool brings_value(Op op) { return op == Op::put || op == Op::insert_if_absent; }

struct SlotFormat {
  Layout layout = Layout::y2014;
  bool has_trailer = true;
  std::uint32_t value_bytes = 32;  // V
  std::uint32_t kept_bytes = 32;   // bytes of each value that are really copied
  std::uint32_t slot_bytes = 1024;
  bool checks = true;         // with a trailer: messages of several lines have a check
  bool places_lines = false;  // the fabric places a cache line as a whole

  static constexpr std::uint32_t line = 64;
  static constexpr std::uint32_t length_of_remove = 0xFFFF;
  static constexpr std::uint8_t opcode_base = 110;  // MICA's operation plus 10 … (2016 code)

  // The paper's bytes, and those that are written.
  [[nodiscard]] std::uint32_t body_bytes(Op op) const;
  [[nodiscard]] std::uint32_t message_bytes(Op op) const {
    return body_bytes(op) + (has_trailer ? rpc::trailer_bytes : 0);
  }
  [[nodiscard]] std::uint32_t largest() const { return message_bytes(Op::put); }
  // What says that a message with a trailer is here.
  [[nodiscard]] rpc::Arrival arrival(Op op) const {
    const bool is_one_line = places_lines && message_bytes(op) <= line;
    return checks && !is_one_line ? rpc::Arrival::by_check : rpc::Arrival::by_trailer;
  }
  // The offset in the slot at which the request begins.
  [[nodiscard]] std::uint32_t start(Op op) const {
    return is_right_aligned() ? slot_bytes - message_bytes(op) : 0;
  }
  [[nodiscard]] std::uint32_t word_at() const { return is_right_aligned() ? slot_bytes - 8 : keyhash_bytes; }
  [[nodiscard]] bool is_right_aligned() const { return has_trailer || layout == Layout::y2014; }

  // Writes the request into the slot at `slot` of the region.
  void write(fabric::Region& region, std::uint64_t slot, Op op, KeyHash key, const std::byte* value,
             std::uint16_t sequence) const;
  // Of a request that is written: another attempt, so that its polled word differs.
  void set_attempt(fabric::Region& region, std::uint64_t slot, std::uint8_t attempt) const;

  // Does the polled word say that a request is here, in whole?
  [[nodiscard]] bool is_here(const fabric::Region& region, std::uint64_t slot, std::uint64_t word) const;
  struct Request {
    Op op = Op::none;
    KeyHash key;
    std::uint16_t sequence = 0;
  };
  // Takes a request out of its slot; what is kept of a PUT's value goes to `value`.
  [[nodiscard]] Request read(const fabric::Region& region, std::uint64_t slot, std::uint64_t word,
                             std::byte* value) const;
  // Published: frees the slot.
  void clear(fabric::Region& region, std::uint64_t slot) const;

 private:
  [[nodiscard]] Op op_of(const fabric::Region& region, std::uint64_t slot, std::uint64_t word) const;
  [[nodiscard]] std::uint32_t key_at(Op op) const;
  [[nodiscard]] std::uint32_t value_at() const;
};

}  // namespace loch::herd
