# Compiler, language level and flags. GCC before 14 miscompiles ordinary coroutine code
# without a diagnostic (docs/decisions/0001-clang-19-is-the-compiler.md), so it is refused rather than trusted.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} miscompiles C++ coroutines: a task may return neither branch of an if. "
    "Use Clang 19 (Debian: clang-19), as the presets do: cmake --preset release")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(FATAL_ERROR "Clang ${CMAKE_CXX_COMPILER_VERSION} is too old: Loch needs Clang 19 (Debian: clang-19).")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)

set(LOCH_SANITIZE "" CACHE STRING "Sanitizer of this build: empty, asan, tsan or fuzz")

# Optimization of test files. The library under test is always compiled as it is released; optimizing the tests
# themselves would cost more time than their running gains. A test that computes much by itself says OPTIMIZED.
set(LOCH_TEST_OPTIMIZATION -O0)

option(LOCH_COVERAGE "Count the lines and branches that run (llvm-cov)" OFF)

# Unity builds compile up to 16 files of a target together, so that headers are parsed and templates instantiated
# once for all. Meant for complete, rare builds (sanitizers); after an edit, the whole batch is compiled again.
option(LOCH_UNITY "Compile up to 16 files of a target as one" OFF)
set(CMAKE_UNITY_BUILD ${LOCH_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)

find_program(LOCH_CCACHE ccache)
if(LOCH_CCACHE)
  # ccache ignores the path of the source folder, so that clones and worktrees share compile results. It
  # identifies precompiled headers by a checksum of their text (cmake/Precompiled.cmake).
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1 ${LOCH_CCACHE})
endif()

# Linked by every target: warning flags, sanitizers, the include path.
add_library(loch_flags INTERFACE)
target_include_directories(loch_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(loch_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align
  -Woverloaded-virtual -Wunused -Wno-missing-field-initializers -Werror=return-type
  -Werror=unused-result -fno-omit-frame-pointer)
set(LOCH_SANITIZER_FLAGS "")
if(LOCH_SANITIZE STREQUAL "asan")
  set(LOCH_SANITIZER_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_link_options(loch_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(loch_flags INTERFACE LOCH_ASAN=1)
elseif(LOCH_SANITIZE STREQUAL "tsan")
  set(LOCH_SANITIZER_FLAGS -fsanitize=thread)
  target_link_options(loch_flags INTERFACE -fsanitize=thread)
  target_compile_definitions(loch_flags INTERFACE LOCH_TSAN=1)
elseif(LOCH_SANITIZE STREQUAL "fuzz")
  set(LOCH_SANITIZER_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(loch_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(loch_flags INTERFACE LOCH_ASAN=1)
elseif(NOT LOCH_SANITIZE STREQUAL "")
  message(FATAL_ERROR "LOCH_SANITIZE=${LOCH_SANITIZE}: expected asan, tsan, fuzz or nothing")
endif()
target_compile_options(loch_flags INTERFACE ${LOCH_SANITIZER_FLAGS})
if(LOCH_COVERAGE)
  target_compile_options(loch_flags INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(loch_flags INTERFACE -fprofile-instr-generate)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_link_options(loch_flags INTERFACE -fuse-ld=lld)
endif()
