// Reports where in the program a crash happened.
#pragma once

namespace loch::cli {

// Installs handlers for SIGSEGV, SIGBUS, SIGILL and SIGFPE, which print one line (the signal, and the address
// whose access failed) and the thread's call stack to standard error, and then end the process by that
// signal, with a core file where the system writes one. Does nothing in a build with a sanitizer, which
// prints its own report.
void report_crashes();

}  // namespace loch::cli
