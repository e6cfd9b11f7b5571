// The byte layout of a request in its slot. Numbers are sizes in bytes; V is the size of a value.
//
//   2014, published    | unused | VALUE V | LEN 2 | KEY 16 |      right-aligned in 1 KB; a GET is KEY alone.
//                      A request has arrived if the low byte of the slot's last 8-byte word is not 0; the
//                      server zeroes that word and LEN when it fetches the request. LEN 0xFFFF: a DELETE.
//   2016, published    | KEY 16 | opcode 1 | length 1 | VALUE V | unused |      64 B
//                      Opcodes: GET 111, PUT 112, DELETE 113, INSERT 114 (only with a trailer). A request
//                      has arrived if the opcode is at least 111; the server zeroes the opcode's word.
//   fixed, both        | unused | the published bytes | trailer 8 |             right-aligned
//
// The trailer is that of common/rpc/frame.h: sequence number, attempt, operation, check.
//
// On a fabric that places cache lines as a whole, a fixed request that lies in one line has arrived when its
// trailer has arrived. Any other fixed request has arrived when the check in its trailer matches the bytes of
// the request. In-order placement would not suffice, because UC may lose a part of a WRITE.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/fabric/fabric.h"
#include "common/fabric/memory.h"
#include "common/rpc/frame.h"
#include "herd_em/keyhash.h"

namespace loch::herd {

enum class Layout : std::uint8_t { y2014, y2016 };
// Operations of requests. insert_if_absent exists only in the fixed variant, whose requests name their
// operation in the trailer (a word behind the request), and has the layout of a PUT.
enum class Op : std::uint8_t { none = 0, get = 1, put = 2, remove = 3, insert_if_absent = 4 };
constexpr std::size_t ops = 5;  // number of values of Op
[[nodiscard]] constexpr bool brings_value(Op op) { return op == Op::put || op == Op::insert_if_absent; }

struct SlotFormat {
  Layout layout = Layout::y2014;
  bool has_trailer = true;
  std::uint32_t value_bytes = 32;  // V: bytes of a value
  // bytes of each value that are copied; fewer than V if a simulation stores values in part
  std::uint32_t kept_bytes = 32;
  std::uint32_t slot_bytes = 1024;
  // false: a request counts as arrived as a whole when its trailer (last word) has arrived
  bool checks = true;
  bool places_lines = false;  // whether the fabric places a cache line as a whole

  static constexpr std::uint32_t line = 64;
  static constexpr std::uint32_t length_of_remove = 0xFFFF;
  // A 2016 request's opcode is this plus the Op's value, as in HERD's public code: 111 for a GET.
  static constexpr std::uint8_t opcode_base = 110;

  // Bytes of a request: body_bytes() as in the paper, message_bytes() including the trailer (8 bytes with
  // number and checksum), if it has one.
  [[nodiscard]] std::uint32_t body_bytes(Op op) const {
    const bool is_put = brings_value(op);
    if (layout == Layout::y2014) return keyhash_bytes + (op == Op::get ? 0 : 2 + (is_put ? value_bytes : 0));
    return keyhash_bytes + 1 + (is_put ? 1 + value_bytes : 0);
  }
  [[nodiscard]] std::uint32_t message_bytes(Op op) const {
    return body_bytes(op) + (has_trailer ? rpc::trailer_bytes : 0);
  }
  [[nodiscard]] std::uint32_t largest() const { return message_bytes(Op::put); }
  // How the server tells that a message with a trailer (last word, with number and checksum) has arrived as a
  // whole.
  [[nodiscard]] rpc::Arrival arrival(Op op) const {
    const bool is_one_line = places_lines && message_bytes(op) <= line;
    return checks && !is_one_line ? rpc::Arrival::by_check : rpc::Arrival::by_trailer;
  }
  // Offset in the request slot of the request's first byte.
  [[nodiscard]] std::uint32_t start(Op op) const {
    return is_right_aligned() ? slot_bytes - message_bytes(op) : 0;
  }
  [[nodiscard]] std::uint32_t word_at() const { return is_right_aligned() ? slot_bytes - 8 : keyhash_bytes; }
  [[nodiscard]] bool is_right_aligned() const { return has_trailer || layout == Layout::y2014; }

  // Writes a request into the request slot at offset `slot` of the region, as its first attempt.
  void write(fabric::Region& region, std::uint64_t slot, Op op, KeyHash key, const std::byte* value,
             std::uint16_t sequence) const;
  // Sets the attempt number in a written request, so that its polled word differs from that of earlier
  // attempts.
  void set_attempt(fabric::Region& region, std::uint64_t slot, std::uint8_t attempt) const;

  // Whether `word`, which polling has read from the request slot, shows that a request has arrived as a
  // whole.
  [[nodiscard]] bool is_here(const fabric::Region& region, std::uint64_t slot, std::uint64_t word) const;
  struct Request {
    Op op = Op::none;
    KeyHash key;
    std::uint16_t sequence = 0;
  };
  // Reads a request from its request slot, and copies the stored bytes of a PUT's value to `value`.
  [[nodiscard]] Request read(const fabric::Region& region, std::uint64_t slot, std::uint64_t word,
                             std::byte* value) const;
  // A private copy of a request, without its trailer, made after the checksum in the trailer has matched. If
  // `op` is none, there is no copy.
  struct Kept {
    Op op = Op::none;
    std::array<std::byte, rpc::most_kept_body> body;
  };
  // Where the parts of an operation's request lie, which a server computes once: `start` from the request
  // slot's first byte on, the others from the request's first byte on.
  struct Parts {
    std::uint32_t start = 0, body = 0, key = 0, value = 0;
    bool is_kept = false;  // whether keep_if_here() makes a copy of a request of this operation
    bool is_key = false;   // whether the body is a key alone, which lies in whole words of the request slot
  };
  using PartsOfAll = std::array<Parts, ops>;  // by operation
  [[nodiscard]] PartsOfAll parts_of(const fabric::Region& region) const;
  // As is_here(). If a checksum decides and the request is small enough, the checked bytes are also copied to
  // `kept`, so that the request need not be read and checked again. `parts` is parts_of(region).
  [[nodiscard]] bool keep_if_here(const fabric::Region& region, std::uint64_t slot, std::uint64_t word,
                                  const PartsOfAll& parts, Kept* kept) const {
    kept->op = Op::none;
    const rpc::Trailer trailer = rpc::Trailer::unpack(word);
    if (trailer.code >= ops || !parts[trailer.code].is_kept) return is_here(region, slot, word);
    const Parts& its = parts[trailer.code];
    fabric::copy_from_shared(kept->body.data(), region.at(slot + its.start), its.body);
    if (rpc::body_check(kept->body.data(), its.body, trailer.sequence, trailer.code, 0) != trailer.check)
      return false;
    kept->op = static_cast<Op>(trailer.code);
    return true;
  }
  [[nodiscard]] Request read(const Kept& kept, std::uint64_t word, const PartsOfAll& parts,
                             std::byte* value) const {
    const Parts& its = parts[static_cast<std::size_t>(kept.op)];
    Request request{.op = kept.op, .key = {}, .sequence = rpc::Trailer::unpack(word).sequence};
    std::memcpy(&request.key, kept.body.data() + its.key, sizeof request.key);
    if (brings_value(kept.op)) std::memcpy(value, kept.body.data() + its.value, kept_bytes);
    return request;
  }
  // Published layouts: marks the request slot as free.
  void clear(fabric::Region& region, std::uint64_t slot) const;

 private:
  [[nodiscard]] Op op_of(const fabric::Region& region, std::uint64_t slot, std::uint64_t word) const;
  [[nodiscard]] std::uint32_t key_at(Op op) const;
  [[nodiscard]] std::uint32_t value_at() const;
};

}  // namespace loch::herd
