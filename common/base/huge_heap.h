// Huge pages for the memory that malloc() hands out.
#pragma once

namespace loch {

// Has malloc() take what it hands out from now on from one stretch of memory in huge pages (as far as the
// kernel has some), and keep what is freed. A simulation's requests, queue pairs and tables then cost the
// kernel a page fault for each 2 MB and not for each 4 KB, and the processor fewer misses of its TLB. Later
// calls do nothing. Without effect in builds with a sanitizer, on other C libraries than glibc, and where the
// process may not have 2 GB more of address space. Not for threads' own arenas.
void use_huge_heap();

}  // namespace loch
