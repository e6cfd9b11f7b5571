# loch_version: commit, dirty flag, compiler and flags as a library of one generated file.
# The script runs with every build (about 20 ms) and rewrites the file only when its text
# changes, so that a new commit costs one compilation and the links, not a rebuild.
function(loch_version_library)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  set(flags "${CMAKE_BUILD_TYPE} -std=c++${CMAKE_CXX_STANDARD} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${LOCH_SANITIZER_FLAGS}")
  string(REGEX REPLACE "[ \t;]+" " " flags "${flags}")
  string(STRIP "${flags}" flags)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/version.cc)
  set(arguments
    -DSOURCE=${CMAKE_SOURCE_DIR} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/version.cc.in -DOUTPUT=${generated}
    -DLOCH_VERSION=${PROJECT_VERSION} "-DLOCH_FLAGS=${flags}"
    "-DLOCH_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -P ${CMAKE_SOURCE_DIR}/cmake/WriteVersion.cmake)
  add_custom_target(loch_version_file
    COMMAND ${CMAKE_COMMAND} ${arguments}
    BYPRODUCTS ${generated}
    COMMENT "Checking the commit" VERBATIM)
  loch_library(loch_version SOURCES ${generated})
  add_dependencies(loch_version loch_version_file)
endfunction()
