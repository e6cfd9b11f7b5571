// Handles a standard input, standard output or standard error that is closed, full, or a pipe without a
// reader.
#pragma once

#include <functional>
#include <string_view>

namespace loch::cli {

// To be called before any file is opened and anything printed. Opens /dev/null for each closed standard
// descriptor, since otherwise the next opened file would get its number and receive the output. Failed writes
// to standard error are ignored. Exceeding the file size limit (ulimit -f) becomes an error of write()
// instead of a signal.
void prepare_standard_streams();

// Runs a command and flushes its output. Failed output and exceptions are reported by one line on standard
// error, and give exit status 2 if the command itself returned 0, so that a script does not take lost output
// for success.
[[nodiscard]] int with_output_checked(std::string_view name, const std::function<int()>& command);

}  // namespace loch::cli
