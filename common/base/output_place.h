// Resolves and writes output files. The content of a regular file is written to a temporary file and
// renamed, so that a file that exists is complete. A device or pipe is written to directly: renaming over
// /dev/null would replace it by a file for the whole machine. tools/loch/written.py implements the same
// rules in Python.
#pragma once

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace loch {

struct OutputPlace {
  std::string path;     // path of the file, device or pipe after following symbolic links
  bool is_file = true;  // true: a regular file; false: a device, a pipe or an open descriptor
  // open descriptor of this process that the name -, /dev/stdout or /dev/fd/N denotes, else -1
  int descriptor = -1;
};

// Resolves the name of an output. Fails for a folder, and for a path that stat() refuses.
[[nodiscard]] Result<OutputPlace> output_place(const std::string& path);

// Opens an output that is not a regular file, without truncating or replacing it; the caller closes the
// descriptor.
[[nodiscard]] Result<int> open_as_it_is(const OutputPlace& place);

// Writes a regular file through a temporary file in the same folder and a rename; writes to a device or
// pipe directly. On failure the error names the path, the temporary file is removed and an existing file
// keeps its content.
[[nodiscard]] Result<> write_output(const std::string& path, std::string_view text);

// The reason, in a few words, why nothing can be written to `path`, as far as a check without writing can
// tell; empty if it seems writable.
[[nodiscard]] std::string why_no_output(const std::string& path);

}  // namespace loch
