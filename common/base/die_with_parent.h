// A process that does not outlive the one that started it, however that ends.
#pragma once

#include <sys/types.h>

namespace loch {

// The environment variable that names the process with which a program ends: its parent, by number.
inline constexpr const char* parent_variable = "LOCH_DIES_WITH";

// Has the kernel kill the calling process (SIGKILL) when its parent, the process `parent`, ends. False if
// that has ended already: then nothing will kill the caller, which has to end by itself.
[[nodiscard]] bool die_with_parent(pid_t parent);

// The same for the parent that parent_variable names, which is unset, so that the caller's own children do
// not take it for theirs. True without that variable, and if the process that it names is there but is not
// the parent, since another program (a script, a debugger) has started the caller for it: nothing will then
// kill the caller. False if there is no such process any more.
[[nodiscard]] bool die_with_named_parent();

}  // namespace loch
