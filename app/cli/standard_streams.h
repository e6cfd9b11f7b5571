// Standard input, output and errors as they may be: closed, full, a pipe that nobody reads.
#pragma once

#include <functional>
#include <string_view>

namespace loch::cli {

// To be called before anything is opened or printed. A closed descriptor is given something to stand for, or
// the next file opened would take its number and be printed into. What cannot be written to standard error is
// lost in silence and ends nothing. A file that grows beyond the limit of its size (ulimit -f) is an error of
// write(), no signal.
void prepare_standard_streams();

// Runs a command and flushes what it has printed. Output that could not be written, like any exception, is
// one line on standard error, and exit status 2 where the command says 0: a script must not take its 0 for an
// answer that nobody has got.
[[nodiscard]] int with_output_checked(std::string_view name, const std::function<int()>& command);

}  // namespace loch::cli
