// Reads java.util.Properties files as YCSB reads its workload files: '#' and '!' comments; '=', ':' or blanks
// as separator; '\' continuations and escapes; trailing blanks of a value kept. A later assignment of a key
// replaces an earlier one.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch::workloads {

struct Property {
  std::string value;
  std::string file;  // file that set the property last, for error messages
  int line = 0;      // line of the property's key; 0: set on the command line
};
using Properties = std::map<std::string, Property, std::less<>>;

// Adds the text's properties to `into`. Fails only on a \u escape without four hex digits, which is all that
// the format can get wrong; the error names file and line.
[[nodiscard]] Result<> parse_properties(std::string_view text, std::string_view file, Properties& into);

}  // namespace loch::workloads
