// Huge pages for the memory that malloc() hands out.
#pragma once

namespace loch {

// Lets the heap of malloc() grow by 2 GB of address space at once, asks the kernel for huge pages there, and
// has what is freed kept for later blocks. A simulation's requests, queue pairs and caches then cost the
// kernel a page fault for each 2 MB and not for each 4 KB, and the processor fewer misses of its TLB. Blocks
// of 32 MB and more remain mappings of their own, and what lies beyond the 2 GB, or in the arenas of other
// threads, has small pages. To be called by a program and not by a library, as malloc() is the whole
// process's. Later calls do nothing. Changes nothing in builds with a sanitizer, on other C libraries than
// glibc, where the kernel counts address space as memory (vm.overcommit_memory is 2), and where the heap
// cannot grow so far (ulimit -v, -d).
void use_huge_heap();

}  // namespace loch
