# Precompiled headers: those of the standard library and of other projects that most files include are parsed once
# a build instead of once a file, since parsing is two thirds of a cold build's work. Loch's own headers are not among
# them, because edits change them. Files must still include what they use: the preset `dev` builds without precompiled
# headers (LOCH_PCH=OFF), and fails if an include is missing.
option(LOCH_PCH "Precompile the headers of the standard library, fmt, yaml-cpp, JSON and GoogleTest" ON)

set(LOCH_PRECOMPILED
  <algorithm> <array> <atomic> <bit> <cerrno> <charconv> <chrono> <cmath> <condition_variable> <coroutine> <cstddef>
  <cstdint> <cstdio> <cstdlib> <cstring> <deque> <exception> <expected> <filesystem> <fstream> <functional> <iterator>
  <limits> <map> <memory> <mutex> <new> <numeric> <optional> <random> <set> <span> <sstream> <stdexcept> <string>
  <string_view> <thread> <tuple> <type_traits> <unordered_map> <utility> <variant> <vector>
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <yaml-cpp/yaml.h>)

# Makes two sets of precompiled headers: with the library's flags, and with those of tests (-O0, GoogleTest included).
function(loch_precompile)
  if(NOT LOCH_PCH)
    return()
  endif()
  if(EXISTS /var/lib/dpkg/status)  # an upgrade of a Debian package may change headers
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS /var/lib/dpkg/status)
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "// Gives the precompiled headers a target to belong to.\n")
  loch_precompile_for(loch_precompiled HEADERS ${LOCH_PRECOMPILED}
    DEPS fmt::fmt yaml-cpp nlohmann_json::nlohmann_json)
  loch_precompile_for(loch_precompiled_tests HEADERS ${LOCH_PRECOMPILED} <gmock/gmock.h> <gtest/gtest.h>
    DEPS fmt::fmt yaml-cpp nlohmann_json::nlohmann_json GTest::gmock GTest::gtest OPTIONS ${LOCH_TEST_OPTIMIZATION})
endfunction()

# Makes one target with precompiled headers. Clang is told to record no times in the file, and a checksum of the
# headers' text is written beside it, so that ccache treats the precompiled headers of two builds as equal if their text
# is. The precompiled file itself contains the build folder's path, so ccache never caches it.
function(loch_precompile_for TARGET)
  cmake_parse_arguments(A "" "" "HEADERS;DEPS;OPTIONS" ${ARGN})
  add_library(${TARGET} OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${TARGET} PRIVATE loch_flags ${A_DEPS})
  target_compile_options(${TARGET} PRIVATE ${A_OPTIONS} "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${TARGET} PRIVATE ${A_HEADERS})
  set_target_properties(${TARGET} PROPERTIES CXX_COMPILER_LAUNCHER "" UNITY_BUILD OFF)
  list(TRANSFORM A_HEADERS REPLACE "(.+)" "#include \\1" OUTPUT_VARIABLE text)
  list(JOIN text "\n" text)
  set(all ${CMAKE_BINARY_DIR}/${TARGET}.text.cc)
  file(WRITE ${all} "${text}\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++${CMAKE_CXX_STANDARD} -E ${all}
    OUTPUT_FILE ${all}.i ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    file(STRINGS ${all}.i lines REGEX "^[^#]")
    string(SHA256 sum "${lines}")
    file(WRITE ${CMAKE_BINARY_DIR}/CMakeFiles/${TARGET}.dir/cmake_pch.hxx.pch.sum "${sum}\n")
  endif()
  file(REMOVE ${all}.i)
endfunction()

# Lets the target NAME use the precompiled headers of the target PRECOMPILED. CMake's default options would also
# include the header's text, by an absolute path that differs between clones and so defeats ccache.
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)
function(loch_use_precompiled NAME PRECOMPILED)
  if(LOCH_PCH)
    target_precompile_headers(${NAME} REUSE_FROM ${PRECOMPILED})
  endif()
endfunction()
