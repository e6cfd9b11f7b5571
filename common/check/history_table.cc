// Stores the operations of a history compactly and groups them by key.
#include "common/check/history_table.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/check/binary_format.h"

namespace loch::check {
namespace {

// A durable writer records a PUT, DELETE or INSERT before it begins, in a line without return time. Removes
// such a line if the finished operation has a line too, and duplicates of such a line if it never finished.
void drop_superseded(std::vector<KeyOp>* operations) {
  const auto identity = [](const KeyOp& op) { return std::tie(op.invoke_ns, op.client, op.kind, op.value); };
  const auto heard = [](const KeyOp& op) { return op.return_ns != forever; };
  std::ranges::sort(*operations, [&](const KeyOp& a, const KeyOp& b) {
    return std::tuple(identity(a), !heard(a), a.return_ns, a.outcome) <
           std::tuple(identity(b), !heard(b), b.return_ns, b.outcome);
  });
  const auto superseded = [&](const KeyOp& before, const KeyOp& op) {
    return op.kind != OpKind::get && !heard(op) && identity(before) == identity(op);
  };
  const auto rest = std::unique(operations->begin(), operations->end(), superseded);
  operations->erase(rest, operations->end());
}

// A ValueCode is an index into the texts, shifted by one, or, with its lowest bit set, the writer's number in
// `writer_bits` bits and that of the value among the writer's in the bits above.
constexpr unsigned code_bits = 58, writer_bits = 20;
constexpr ValueCode version_bit = 1, no_value = (ValueCode{1} << code_bits) - 1;
constexpr std::uint64_t writers_most = std::uint64_t{1} << writer_bits;
// One less than the bits would hold, so that no name has the code `no_value`.
constexpr std::uint64_t versions_most = (std::uint64_t{1} << (code_bits - writer_bits - 1)) - 1;
constexpr ValueCode init_code = 0;

// Numbers the values of one key in the order of their first occurrence, after the preloaded value, which is
// 0.
class ValueNumbers {
 public:
  explicit ValueNumbers(std::size_t operations)
      : places_(std::bit_ceil(2 * operations + 2), none), codes_{init_code} {
    places_[mix64(init_code) & (places_.size() - 1)] = init_value;
  }

  std::uint32_t number(ValueCode code) {
    if (code == no_value) return none;
    for (std::uint64_t at = mix64(code);; ++at) {
      std::uint32_t& place = places_[at & (places_.size() - 1)];
      if (place == none) {
        place = static_cast<std::uint32_t>(codes_.size());
        codes_.push_back(code);
      }
      if (codes_[place] == code) return place;
    }
  }
  [[nodiscard]] std::vector<ValueCode> take() { return std::move(codes_); }

 private:
  std::vector<std::uint32_t> places_;
  std::vector<ValueCode> codes_;
};

}  // namespace

std::uint32_t Names::number(std::string_view name) {
  if (2 * names_.size() >= places_.size()) grow();
  const auto hash = static_cast<std::uint32_t>(XXH3_64bits(name.data(), name.size()));
  for (std::size_t at = hash;; ++at) {
    Place& place = places_[at & (places_.size() - 1)];
    if (place.number == none) {
      place = {static_cast<std::uint32_t>(names_.size()), hash};
      LOCH_CHECK_LT(place.number, none);
      names_.emplace_back(name);
    }
    if (place.hash == hash && names_[place.number] == name) return place.number;
  }
}

void Names::put(const Place& place) {
  std::size_t at = place.hash;
  while (places_[at & (places_.size() - 1)].number != none) ++at;
  places_[at & (places_.size() - 1)] = place;
}

void Names::grow() {
  const std::vector<Place> before = std::move(places_);
  places_.assign(std::max<std::size_t>(16, 2 * before.size()), Place{});
  for (const Place& place : before) {
    if (place.number != none) put(place);
  }
}

HistoryTable::HistoryTable() { LOCH_CHECK_EQ(code_of(preloaded_value), init_code); }

ValueCode HistoryTable::code_of(std::string_view value) {
  if (const auto numbers = version_numbers(value);
      numbers && numbers->first < writers_most && numbers->second < versions_most)
    return (numbers->second << writer_bits | numbers->first) << 1 | version_bit;
  return ValueCode{texts_.number(value)} << 1;
}

std::string HistoryTable::spelled(ValueCode code) const {
  if ((code & version_bit) == 0) return texts_[static_cast<std::uint32_t>(code >> 1)];
  return fmt::format("w{}.{}", code >> 1 & (writers_most - 1), code >> (1 + writer_bits));
}

void HistoryTable::add(const OperationView& operation) {
  const bool is_loss = operation.kind == OpKind::lost;
  const ValueCode value = is_loss           ? code_of(operation.key)
                          : operation.value ? code_of(*operation.value)
                                            : no_value;
  const Entry entry{.invoke_ns = operation.invoke_ns,
                    .return_ns = operation.return_ns.value_or(forever),
                    .value = value,
                    .kind = static_cast<std::uint64_t>(operation.kind),
                    .outcome = static_cast<std::uint64_t>(operation.outcome),
                    .client = operation.client,
                    .key = is_loss ? 0 : keys_.number(operation.key)};
  (is_loss ? losses_ : all_).push_back(entry);
}

void HistoryTable::finish() {
  LOCH_CHECK_LE(all_.size(), none);
  first_.assign(keys_.size() + 1, 0);
  for (const Entry& entry : all_) ++first_[entry.key + 1];
  for (std::size_t key = 0; key < keys_.size(); ++key) first_[key + 1] += first_[key];
  grouped_.resize(all_.size());
  std::vector<std::uint64_t> at(first_.begin(), first_.end() - 1);
  std::uint32_t index = 0;
  for (const Entry& entry : all_) grouped_[at[entry.key]++] = index++;
}

KeyHistory HistoryTable::key_history(std::uint32_t key, Start otherwise) const {
  KeyHistory history{key, otherwise, {}, {}};
  const std::uint64_t count = first_[key + 1] - first_[key];
  ValueNumbers numbers(count + losses_.size());
  const auto unpacked = [&](const Entry& entry) {
    return KeyOp{entry.invoke_ns,
                 entry.return_ns,
                 entry.client,
                 numbers.number(entry.value),
                 static_cast<OpKind>(entry.kind),
                 static_cast<Outcome>(entry.outcome)};
  };
  history.operations.reserve(count + losses_.size());
  for (std::uint64_t i = first_[key]; i < first_[key + 1]; ++i) {
    const KeyOp op = unpacked(all_[grouped_[i]]);
    if (op.client != preload_client) {
      history.operations.push_back(op);
    } else if (op.kind == OpKind::remove) {
      history.start = Start::absent;
    } else if (op.value == init_value) {
      history.start = Start::present;
    } else {
      // a preload under a name other than "init" is treated as an ordinary PUT
      history.operations.push_back(op);
    }
  }
  drop_superseded(&history.operations);
  for (const Entry& loss : losses_) history.operations.push_back(unpacked(loss));
  history.values = numbers.take();
  return history;
}

Operation HistoryTable::restore(const KeyHistory& history, const KeyOp& op) const {
  Operation result{op.client,    op.kind,      op.outcome,  keys_[history.key],
                   std::nullopt, op.invoke_ns, std::nullopt};
  if (op.kind == OpKind::lost)
    result.key = spelled(history.values[op.value]);
  else if (op.value != none)
    result.value = spelled(history.values[op.value]);
  if (op.return_ns != forever) result.return_ns = op.return_ns;
  return result;
}

}  // namespace loch::check
