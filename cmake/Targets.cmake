# Functions with which a module declares its libraries, tests, benchmarks and fuzzers:
#   loch_library(NAME [SOURCES a.cc …] [DEPS lib …])
#   loch_test(NAME SOURCES x_test.cc … [DEPS lib …] [LABELS quick|sanitize|slow|protocol…] [TIMEOUT s]
#             [DISCOVER]                                    each test case is a ctest entry of its own
#             [SINGLE_THREADED]                             has one thread, so it is not built under tsan
#             [RELEASE_ONLY]                                long simulations: not built under sanitizers
#             [OPTIMIZED])                                  its own files are compiled like the library, not at -O0
#   loch_benchmark(NAME SOURCES x_bench.cc … [DEPS lib …])
#   loch_python_test(NAME MODULE test_x [LABELS …] [TIMEOUT s] [ENVIRONMENT K=v …])      pytest, in the current folder
#   loch_fuzzer(NAME SOURCES x_fuzz.cc … [DEPS lib …] [CORPUS folder] [MAX_LEN bytes])
#             a libFuzzer target, built only in the fuzz preset, where the ctest entry libfuzzer.NAME runs it; the corpus
#             of a target x_fuzz is the folder corpus/x, unless CORPUS names another
#   loch_corpus_test(NAME SOURCE x_fuzz.cc CORPUS folder LEAST n [DEPS lib …])  runs a fuzzer on its corpus, in every build
#   loch_apart(a.cc …)   files that unity builds compile alone, because they define a name that another file of their
#             target also defines
define_property(GLOBAL PROPERTY LOCH_TEST_SOURCES BRIEF_DOCS "test sources that some target builds")
add_custom_target(loch_quick_tests)
add_custom_target(loch_sanitize_tests)
add_custom_target(loch_fuzzers)
find_program(LOCH_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
# The folder into which each test writes its skipped cases; tests/skips/report.py counts them after the last test.
set(LOCH_RAN ${CMAKE_BINARY_DIR}/Testing/ran)

function(loch_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(loch_library NAME)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  if(A_SOURCES)
    add_library(${NAME} STATIC ${A_SOURCES})
    target_link_libraries(${NAME} PUBLIC loch_flags ${A_DEPS})
    loch_use_precompiled(${NAME} loch_precompiled)
  else()
    add_library(${NAME} INTERFACE)
    target_link_libraries(${NAME} INTERFACE loch_flags ${A_DEPS})
  endif()
endfunction()

function(loch_note_test_sources)
  foreach(source IN LISTS ARGN)
    get_filename_component(path ${source} ABSOLUTE)
    set_property(GLOBAL APPEND PROPERTY LOCH_TEST_SOURCES ${path})
  endforeach()
endfunction()

# A test's labels say which test runs include it: `quick` (./loch test --quick: seconds in all), `sanitize`
# (also under the asan and tsan presets), `protocol`, `slow` … A test with the label `quick`, or with no
# label at all, is a unit test and is sanitized too. In a sanitizer's build only those are registered,
# with the sanitizer's name before their own, so that one ctest run can list all three builds.
function(loch_labels RESULT)
  set(labels ${ARGN})
  if(NOT labels)
    set(labels quick)
  endif()
  if("quick" IN_LIST labels)
    list(APPEND labels sanitize)
    list(REMOVE_DUPLICATES labels)
  endif()
  set(${RESULT} ${labels} PARENT_SCOPE)
endfunction()

function(loch_test NAME)
  cmake_parse_arguments(A "DISCOVER;SINGLE_THREADED;RELEASE_ONLY;OPTIMIZED" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  loch_note_test_sources(${A_SOURCES})
  add_executable(${NAME} ${A_SOURCES})
  if(A_OPTIMIZED)
    loch_use_precompiled(${NAME} loch_precompiled)
  else()
    target_compile_options(${NAME} PRIVATE ${LOCH_TEST_OPTIMIZATION})
    loch_use_precompiled(${NAME} loch_precompiled_tests)
  endif()
  target_link_libraries(${NAME} PRIVATE loch_flags ${A_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  loch_labels(labels ${A_LABELS})
  if("quick" IN_LIST labels)
    add_dependencies(loch_quick_tests ${NAME})
  endif()
  set(prefix "")
  if(LOCH_SANITIZE)
    if(NOT "sanitize" IN_LIST labels OR A_RELEASE_ONLY OR LOCH_SANITIZE STREQUAL "fuzz"
       OR (A_SINGLE_THREADED AND LOCH_SANITIZE STREQUAL "tsan"))
      set_target_properties(${NAME} PROPERTIES EXCLUDE_FROM_ALL TRUE)
      return()
    endif()
    set(prefix "${LOCH_SANITIZE}.")
    add_dependencies(loch_sanitize_tests ${NAME})
  endif()
  if(A_DISCOVER)
    gtest_discover_tests(${NAME} TEST_PREFIX "${prefix}" DISCOVERY_TIMEOUT 60 XML_OUTPUT_DIR ${LOCH_RAN}
      PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT} FIXTURES_REQUIRED ran)
    return()
  endif()
  add_test(NAME ${prefix}${NAME} COMMAND ${NAME})
  set_tests_properties(${prefix}${NAME} PROPERTIES LABELS "${labels}" TIMEOUT ${A_TIMEOUT} FIXTURES_REQUIRED ran
    ENVIRONMENT "GTEST_OUTPUT=xml:${LOCH_RAN}/${prefix}${NAME}.xml")
endfunction()

# Sources that operations run through: compiled without frame pointers, which cost each call three instructions and
# every function a register (docs/data-path.md). The reports of sanitizers need them.
function(loch_data_path)
  if(NOT LOCH_SANITIZE)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -fomit-frame-pointer)
  endif()
endfunction()

function(loch_benchmark NAME)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} EXCLUDE_FROM_ALL ${A_SOURCES})
  target_link_libraries(${NAME} PRIVATE loch_flags ${A_DEPS} benchmark::benchmark benchmark::benchmark_main)
endfunction()

function(loch_python_test NAME)
  cmake_parse_arguments(A "" "MODULE;TIMEOUT" "LABELS;ENVIRONMENT" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_test(NAME ${NAME} COMMAND ${LOCH_PYTHON} ${CMAKE_SOURCE_DIR}/tests/skips/suite.py ${A_MODULE}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${NAME} PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT} FIXTURES_REQUIRED ran
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=;PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache;LOCH_RAN=${LOCH_RAN}/${NAME}.xml;${A_ENVIRONMENT}")
endfunction()

function(loch_fuzzer NAME)
  cmake_parse_arguments(A "" "CORPUS;MAX_LEN" "SOURCES;DEPS" ${ARGN})
  if(NOT LOCH_SANITIZE STREQUAL "fuzz")
    return()
  endif()
  add_executable(${NAME} ${A_SOURCES})
  loch_use_precompiled(${NAME} loch_precompiled)
  target_link_libraries(${NAME} PRIVATE loch_flags ${A_DEPS})
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer,address,undefined)
  add_dependencies(loch_fuzzers ${NAME})
  if(NOT A_CORPUS)
    string(REGEX REPLACE "_fuzz$" "" parser ${NAME})
    set(A_CORPUS corpus/${parser})
  endif()
  if(NOT A_MAX_LEN)
    set(A_MAX_LEN 4096)
  endif()
  get_filename_component(corpus ${A_CORPUS} ABSOLUTE)
  set_property(GLOBAL APPEND PROPERTY LOCH_FUZZERS "${NAME}|${corpus}|${A_MAX_LEN}")
endfunction()

# Registers all fuzzers as tests that take SECONDS together. Findings, and inputs that reach new code, are stored in
# found/NAME in the build folder and run first the next time, so that a finding fails the test until it is fixed.
function(loch_register_fuzzers SECONDS)
  get_property(fuzzers GLOBAL PROPERTY LOCH_FUZZERS)
  list(LENGTH fuzzers count)
  foreach(fuzzer IN LISTS fuzzers)
    string(REPLACE "|" ";" fields ${fuzzer})
    list(GET fields 0 name)
    list(GET fields 1 corpus)
    list(GET fields 2 length)
    if(NOT IS_DIRECTORY ${corpus})
      set(corpus "")
    endif()
    math(EXPR each "(${SECONDS} + ${count} - 1) / ${count}")
    set(found ${CMAKE_BINARY_DIR}/found/${name})
    file(MAKE_DIRECTORY ${found})
    add_test(NAME libfuzzer.${name} COMMAND ${name} -max_total_time=${each} -max_len=${length} -timeout=10
      -print_final_stats=1 -artifact_prefix=${found}/finding- ${found} ${corpus})
    set_tests_properties(libfuzzer.${name} PROPERTIES LABELS "fuzz" TIMEOUT 300)
  endforeach()
endfunction()

function(loch_corpus_test NAME)
  cmake_parse_arguments(A "" "SOURCE;CORPUS;LEAST" "DEPS" ${ARGN})
  get_filename_component(corpus ${A_CORPUS} ABSOLUTE)
  loch_test(${NAME} SINGLE_THREADED SOURCES ${CMAKE_SOURCE_DIR}/tests/corpus/corpus_test.cc ${A_SOURCE} DEPS ${A_DEPS})
  if(TARGET ${NAME})
    target_compile_definitions(${NAME} PRIVATE LOCH_CORPUS="${corpus}" LOCH_CORPUS_LEAST=${A_LEAST})
  endif()
endfunction()

# Stops if a test file belongs to no target, because it would never run.
function(loch_require_all_tests_registered)
  get_property(registered GLOBAL PROPERTY LOCH_TEST_SOURCES)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/*_test.cc)
  foreach(path IN LISTS found)
    if(path MATCHES "/build[^/]*/" OR path MATCHES "/tools/new/")  # templates, which tests/new fills in and builds
      continue()
    endif()
    if(NOT path IN_LIST registered)
      message(FATAL_ERROR "${path} is in no loch_test(): register it in its module's CMakeLists.txt")
    endif()
  endforeach()
endfunction()
