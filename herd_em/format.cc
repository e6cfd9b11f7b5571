// Writes requests into request slots and reads them back, for each layout and variant.
#include "herd_em/format.h"

#include "common/base/check.h"
#include "common/fabric/memory.h"

namespace loch::herd {

std::uint32_t SlotFormat::key_at(Op op) const {
  return start(op) + (layout == Layout::y2014 ? body_bytes(op) - keyhash_bytes : 0);
}

std::uint32_t SlotFormat::value_at() const {
  return start(Op::put) + (layout == Layout::y2014 ? 0 : keyhash_bytes + 2);
}

// A GET of the layout of 2014 is its key alone, so that its check is computed from the key at hand.
void SlotFormat::write(fabric::Region& region, std::uint64_t slot, Op op, KeyHash key, const std::byte* value,
                       std::uint16_t sequence) const {
  if (op == Op::get && layout == Layout::y2014 && has_trailer && slot_bytes % 8 == 0 &&
      !region.elision().on()) [[likely]] {
    rpc::Trailer trailer{
        .sequence = sequence, .attempt = 0, .code = static_cast<std::uint8_t>(op), .check = 0};
    if (arrival(op) == rpc::Arrival::by_check)
      trailer.check =
          rpc::body_check(reinterpret_cast<const std::byte*>(&key), sizeof key, sequence, trailer.code, 0);
    std::byte* const word = region.at(slot + slot_bytes - rpc::trailer_bytes);
    fabric::copy_to_shared(word - sizeof key, &key, sizeof key);
    return fabric::store_word_release(word, trailer.pack());
  }
  fabric::copy_to_shared(region.at(slot + key_at(op)), &key, sizeof key);
  if (brings_value(op)) fabric::copy_to_shared(region.at(slot + value_at()), value, kept_bytes);
  if (layout == Layout::y2014) {
    const auto length = static_cast<std::uint16_t>(brings_value(op) ? value_bytes : length_of_remove);
    if (op != Op::get) fabric::copy_to_shared(region.at(slot + key_at(op) - 2), &length, 2);
  } else {
    const auto opcode = static_cast<std::uint8_t>(opcode_base + static_cast<std::uint8_t>(op));
    fabric::copy_to_shared(region.at(slot + key_at(op) + keyhash_bytes), &opcode, 1);
    const auto length = static_cast<std::uint8_t>(value_bytes);
    if (brings_value(op))
      fabric::copy_to_shared(region.at(slot + key_at(op) + keyhash_bytes + 1), &length, 1);
  }
  if (!has_trailer) return;
  const rpc::Trailer trailer = rpc::seal(region, slot + start(op), message_bytes(op), sequence,
                                         static_cast<std::uint8_t>(op), arrival(op));
  fabric::store_word_release(region.at(slot + word_at()), trailer.pack());
}

void SlotFormat::set_attempt(fabric::Region& region, std::uint64_t slot, std::uint8_t attempt) const {
  if (!has_trailer) return;
  rpc::Trailer trailer = rpc::Trailer::unpack(fabric::load_word(region.at(slot + word_at())));
  trailer.attempt = attempt;
  fabric::store_word_release(region.at(slot + word_at()), trailer.pack());
}

Op SlotFormat::op_of(const fabric::Region& region, std::uint64_t slot, std::uint64_t word) const {
  if (has_trailer) {
    const std::uint8_t code = rpc::Trailer::unpack(word).code;
    return code <= static_cast<std::uint8_t>(Op::insert_if_absent) ? static_cast<Op>(code) : Op::none;
  }
  if (layout == Layout::y2016) {
    const auto opcode = static_cast<std::uint8_t>(word);
    return opcode > opcode_base && opcode <= opcode_base + 3 ? static_cast<Op>(opcode - opcode_base)
                                                             : Op::none;
  }
  if ((word & 0xFF) == 0) return Op::none;
  std::uint16_t length = 0;
  fabric::copy_from_shared(&length, region.at(slot + key_at(Op::get) - 2), 2);
  return length == 0 ? Op::get : length == length_of_remove ? Op::remove : Op::put;
}

bool SlotFormat::is_here(const fabric::Region& region, std::uint64_t slot, std::uint64_t word) const {
  const Op op = op_of(region, slot, word);
  if (op == Op::none || !has_trailer) return op != Op::none;
  return rpc::is_whole(region, slot + start(op), message_bytes(op), word, arrival(op));
}

SlotFormat::PartsOfAll SlotFormat::parts_of(const fabric::Region& region) const {
  PartsOfAll all;
  for (const Op op : {Op::get, Op::put, Op::remove, Op::insert_if_absent}) {
    Parts& its = all[static_cast<std::size_t>(op)];
    its.start = start(op);
    its.body = body_bytes(op);
    its.key = key_at(op) - its.start;
    if (brings_value(op)) its.value = value_at() - its.start;
    its.is_kept = has_trailer && arrival(op) == rpc::Arrival::by_check && its.body <= rpc::most_kept_body &&
                  !region.elision().on();
    // Regions and request slots begin at word boundaries, so a key at an offset divisible by 8 lies in whole
    // words.
    its.is_key = its.body == keyhash_bytes && its.key == 0 && slot_bytes % 8 == 0 && its.start % 8 == 0;
  }
  return all;
}

SlotFormat::Request SlotFormat::read(const fabric::Region& region, std::uint64_t slot, std::uint64_t word,
                                     std::byte* value) const {
  Request request;
  request.op = op_of(region, slot, word);
  if (request.op == Op::none) return request;
  if (has_trailer) request.sequence = rpc::Trailer::unpack(word).sequence;
  fabric::copy_from_shared(&request.key, region.at(slot + key_at(request.op)), sizeof request.key);
  if (brings_value(request.op)) fabric::copy_from_shared(value, region.at(slot + value_at()), kept_bytes);
  return request;
}

void SlotFormat::clear(fabric::Region& region, std::uint64_t slot) const {
  LOCH_CHECK(!has_trailer, "a request with a trailer stays where it is");
  // Zeroes the word with the length LEN. The other bytes of that word belong to the end of the value, which
  // is no longer needed.
  if (layout == Layout::y2014) fabric::store_word_release(region.at(slot + slot_bytes - 24), 0);
  fabric::store_word_release(region.at(slot + word_at()), 0);
}

}  // namespace loch::herd
