// java.util.Properties, as YCSB reads its workload files: '#' and '!' comments, '=', ':' or blanks
// as separator, '\' continuations and escapes, trailing blanks of a value kept. Later keys win.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch::workloads {

struct Property {
  std::string value;
  std::string file;  // file that set the property last, for messages
  int line = 0;      // of the key; 0: an override from the command line
};
using Properties = std::map<std::string, Property, std::less<>>;

// Adds the text's properties to `into`. The only malformed thing in the format is a \u escape that
// is not four hex digits; the error names file and line.
[[nodiscard]] Result<> parse_properties(std::string_view text, std::string_view file, Properties& into);

}  // namespace loch::workloads
