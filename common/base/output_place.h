// Where an output goes. A regular file is written beside itself and renamed, so that it is whole or not
// there; a device or a pipe is written to as it is: renamed over, /dev/null would be a file for the whole
// machine. The runner has the same rules (tools/loch/written.py).
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch {

struct OutputPlace {
  std::string path;     // of a file, device or pipe; symbolic links are followed to it
  bool is_file = true;  // false: a device, a pipe or a descriptor
  int descriptor = -1;  // own file descriptor, where the name is -, /dev/stdout or /dev/fd/N
};

// The output that a name denotes. Fails for a folder, and for a path that stat() refuses.
[[nodiscard]] Result<OutputPlace> output_place(const std::string& path);

// Of a place that is no file: a descriptor to write to, which the caller closes.
[[nodiscard]] Result<int> open_as_it_is(const OutputPlace& place);

// A temporary in the same folder is renamed over a file; the rest is written to as it is. The error names the
// path; after it nothing is left but what was there before.
[[nodiscard]] Result<> write_output(const std::string& path, std::string_view text);

// Why nothing can be written to `path`, as far as can be told before: in a few words, empty if it can.
[[nodiscard]] std::string why_no_output(const std::string& path);

}  // namespace loch
