// Keys and values of any size over a store whose slots have one size. A key is padded with zero bytes up to
// the largest; a value's slot begins with the value's length and has room for the largest:
//
//    0        8                    8 + length        8 + largest
//    | length | value              | what was there before |
//    | u64    |                    | (zero at first)       |
//
// Work requests transfer the whole slot, as in any design with slots of one size: a GET learns the value's
// length only by reading the slot. Two keys that differ in trailing zero bytes alone are one key. The length
// is little-endian.
#pragma once

#include <memory>
#include <vector>

#include "common/kv/protocol.h"

namespace loch::kv {

constexpr std::uint32_t slot_head_bytes = 8;

// Whether a deployment pads its keys (`keys`) and puts its values into slots (`values`); false for those that
// all have one size.
struct SlotUse {
  bool keys = false, values = false;
  [[nodiscard]] bool any() const { return keys || values; }
};

// The configuration of the inner store; `config` is that of the outer store, which pads keys and values.
[[nodiscard]] DeployConfig slotted(DeployConfig config, SlotUse use);

// Makes a Store for keys and values of up to the sizes in `config`, which holds them padded in `inner`.
// `inner` has to be deployed with slotted(config, use). Every call is forwarded to `inner`.
[[nodiscard]] std::unique_ptr<Store> make_slotted(std::unique_ptr<Store> inner, const DeployConfig& config,
                                                  SlotUse use);

}  // namespace loch::kv
