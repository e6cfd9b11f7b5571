// Linearizability on the fly: the set of all abstract configurations of one key's register that
// explain the answers so far (Wing and Gong's subset construction). A configuration is the register's
// value, which of the operations under way have taken effect and with what answer, and which aborted
// writes may still take effect.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/model/state.h"

namespace loch::model {

struct Answer {
  enum class Type : std::uint8_t { aborted, ok, not_found, value } type = Type::ok;
  Value value = 0;  // a GET's; 0: found nothing
};

// How an aborted PUT or DELETE is judged.
enum class Aborts : std::uint8_t {
  have_no_effect,        // strict: what the hardened variant promises
  may_take_effect_later  // weak: once, at any later time
};

// The operations under way, as the register sees them: each client's current one, or none.
using UnderWay = std::array<const Op*, client_max>;

class RegisterSet {
 public:
  RegisterSet() = default;
  explicit RegisterSet(Value initial) : configurations_{initial} {}

  // `client` is told `answer` to its current operation. Keeps the configurations that explain it;
  // false when none does. `program` finds an aborted operation: (client, index) -> Op.
  // `delete_needs_value`: DELETE's ok promises that there was something to remove.
  [[nodiscard]] bool answer(const UnderWay& under_way, int client, int op_index, Answer answer, Aborts aborts,
                            bool delete_needs_value, const std::vector<std::vector<Op>>& programs, Key key);

  [[nodiscard]] const std::vector<std::uint64_t>& configurations() const { return configurations_; }
  // As configurations() gave them, from unaligned bytes.
  void assign(const char* bytes, std::size_t count) {
    configurations_.resize(count);
    std::memcpy(configurations_.data(), bytes, count * sizeof(std::uint64_t));
  }

 private:
  void close_over(const UnderWay& under_way, bool delete_needs_value,
                  const std::vector<std::vector<Op>>& programs, Key key);

  std::vector<std::uint64_t> configurations_{0};  // sorted
};

}  // namespace loch::model
