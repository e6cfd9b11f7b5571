// A crash of the program says where it happened.
#pragma once

namespace loch::cli {

// From here on, SIGSEGV, SIGBUS, SIGILL and SIGFPE print one line (the signal, and the address whose access
// failed) and the call stack of their thread to standard error, and then end the process as they would have
// without this: with a core file where the system writes one. No effect in a build with a sanitizer, which
// reports more.
void report_crashes();

}  // namespace loch::cli
