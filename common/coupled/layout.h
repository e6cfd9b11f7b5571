// Layout of the data table entry (DTE) of a table that one server worker owns, and of the request and reply
// frames between clients and that worker. Key and value sizes are chosen at launch.
//
//   entry     0     K      K+8             K+8+V  K+16+V   stride
//             | key | meta | value         | tail | unused |
//             |<- header ->|
//             |<------------- full -------------->|
//
//   request   | value | length | key | sequence | trailer |     PUT, INSERT: V + K + 24
//                              | key | sequence | trailer |     GET, DELETE: K + 16
//   reply     | value | trailer |                               GET of a present key: V + 8
//                     | trailer |                               all other replies: 8
//
// K and V are the key and value sizes rounded up to 8 bytes. The trailer (common/rpc/frame.h) is the polled
// last word of a frame. meta counts how often the entry was written. meta and tail have their highest bit set
// (watermark): the last word of a READ is one of them, so that a client which zeroed its buffer sees when all
// bytes have arrived. Entries do not share cache lines.
#pragma once

#include <cstdint>

#include "common/fabric/region.h"
#include "common/rpc/write_channel.h"

namespace loch::coupled {

constexpr std::uint64_t watermark = std::uint64_t{1} << 63;

class EntryLayout {
 public:
  EntryLayout(std::uint32_t key_size, std::uint32_t value_size)
      : key_size_(key_size),
        value_size_(value_size),
        meta_at_(rpc::round_up(key_size, 8)),
        tail_at_(meta_at_ + 8 + rpc::round_up(value_size, 8)),
        stride_(rpc::round_up(tail_at_ + 8, 64)) {}

  [[nodiscard]] std::uint32_t key_size() const { return key_size_; }
  [[nodiscard]] std::uint32_t value_size() const { return value_size_; }
  [[nodiscard]] std::uint32_t meta_at() const { return meta_at_; }
  [[nodiscard]] std::uint32_t value_at() const { return meta_at_ + 8; }
  // The value size rounded up to a multiple of 8 bytes.
  [[nodiscard]] std::uint32_t value_bytes() const { return tail_at_ - value_at(); }
  [[nodiscard]] std::uint32_t tail_at() const { return tail_at_; }
  [[nodiscard]] std::uint32_t header_bytes() const { return meta_at_ + 8; }
  [[nodiscard]] std::uint32_t full_bytes() const { return tail_at_ + 8; }
  [[nodiscard]] std::uint64_t stride() const { return stride_; }

  // The bytes of each entry that memory stores in a simulation that elides values (stores only a part of each
  // value): header, `kept_value` bytes of the value, and tail. Empty (all bytes are stored) if this would
  // save nothing.
  [[nodiscard]] fabric::Elision elision(std::uint32_t kept_value) const {
    const std::uint32_t head = header_bytes() + rpc::round_up(kept_value, 8);
    const auto tail = static_cast<std::uint32_t>(stride_ - tail_at_);
    if (kept_value >= value_size_ || head + tail >= stride_) return {};
    return {.entry_bytes = stride_, .keep_head = head, .keep_tail = tail};
  }

 private:
  std::uint32_t key_size_;
  std::uint32_t value_size_;
  std::uint32_t meta_at_;
  std::uint32_t tail_at_;
  std::uint64_t stride_;
};

// Code of a request: the operation that the client asks for.
enum class Ask : std::uint8_t { get = 1, put = 2, remove = 3, insert_if_absent = 4 };
[[nodiscard]] constexpr bool brings_value(Ask what) {
  return what == Ask::put || what == Ask::insert_if_absent;
}
enum class Say : std::uint8_t {
  value = 1,       // GET: the reply carries the key's value
  done = 2,        // PUT, DELETE or INSERT: the operation took effect
  not_found = 3,   // GET or DELETE: the key is absent
  table_full = 4,  // PUT or INSERT: the index has no place for the key
  busy = 5,        // PUT or INSERT: no entry is free, until an entry that was replaced may be reused
  refused = 6,     // malformed request, or a key that another server worker owns
  lost = 7,        // the server lost its memory and has not been declared lost yet
  exists = 8,      // INSERT: the key is present
  unknown = 9,     // PUT, DELETE or INSERT: the server worker cannot learn whether it took effect
};

class FrameLayout {
 public:
  FrameLayout(std::uint32_t key_size, std::uint32_t value_size)
      : key_(rpc::round_up(key_size, 8)), value_(rpc::round_up(value_size, 8)) {}

  [[nodiscard]] std::uint32_t get_bytes() const { return key_ + rpc::request_tail_bytes; }
  [[nodiscard]] std::uint32_t put_bytes() const { return value_ + 8 + get_bytes(); }
  [[nodiscard]] std::uint32_t value_reply_bytes() const { return value_ + rpc::trailer_bytes; }
  [[nodiscard]] std::uint32_t value_bytes() const { return value_; }
  // Offset of the key in a request frame of `bytes` bytes.
  [[nodiscard]] std::uint32_t key_at(std::uint32_t bytes) const { return bytes - get_bytes(); }
  [[nodiscard]] std::uint32_t length_at() const { return value_; }

  [[nodiscard]] rpc::SlotShape requests(std::uint32_t kept_value) const {
    return {put_bytes(), value_, kept_value};
  }
  [[nodiscard]] rpc::SlotShape replies(std::uint32_t kept_value) const {
    return {value_reply_bytes(), value_, kept_value};
  }
  [[nodiscard]] rpc::FrameSizes request_sizes() const {
    rpc::FrameSizes sizes{};
    sizes[static_cast<std::size_t>(Ask::get)] = get_bytes();
    sizes[static_cast<std::size_t>(Ask::put)] = put_bytes();
    sizes[static_cast<std::size_t>(Ask::remove)] = get_bytes();
    sizes[static_cast<std::size_t>(Ask::insert_if_absent)] = put_bytes();
    return sizes;
  }
  [[nodiscard]] rpc::FrameSizes reply_sizes() const {
    rpc::FrameSizes sizes{};
    sizes[static_cast<std::size_t>(Say::value)] = value_reply_bytes();
    for (const Say say : {Say::done, Say::not_found, Say::table_full, Say::busy, Say::refused, Say::lost,
                          Say::exists, Say::unknown})
      sizes[static_cast<std::size_t>(say)] = rpc::trailer_bytes;
    return sizes;
  }

 private:
  std::uint32_t key_;
  std::uint32_t value_;
};

}  // namespace loch::coupled
