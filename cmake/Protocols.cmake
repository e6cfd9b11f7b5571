# Finds the protocols: each folder of the source tree that has a module.h, and each folder named by
# -DLOCH_PROTOCOLS=DIR;DIR, which may lie anywhere. The registry of protocols is generated from these folders alone.
#
# Such a folder has
#   module.h        declares `void add_modules(std::vector<std::unique_ptr<kv::Module>>&)` in a namespace of loch
#   CMakeLists.txt  declares its libraries and tests (Targets.cmake), and calls
#       loch_protocol(LIBRARY lib [NAMESPACE n])      n: the folder's name, unless it is another
set(LOCH_PROTOCOLS "" CACHE STRING "folders of protocols outside the tree, separated by semicolons")
set_property(GLOBAL PROPERTY LOCH_PROTOCOL_CALLS "")

function(loch_protocol)
  cmake_parse_arguments(A "" "LIBRARY;NAMESPACE" "" ${ARGN})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  if(NOT A_NAMESPACE)
    set(A_NAMESPACE ${folder})
  endif()
  if(NOT TARGET ${A_LIBRARY})
    message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}: loch_protocol(LIBRARY ${A_LIBRARY}) names a library that is not declared before it")
  endif()
  if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/module.h)
    message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}: a protocol's folder has a module.h, which declares ${A_NAMESPACE}::add_modules")
  endif()
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH above)
  if(NOT above STREQUAL CMAKE_SOURCE_DIR)
    target_include_directories(${A_LIBRARY} PUBLIC ${above})
  endif()
  set_property(GLOBAL APPEND PROPERTY LOCH_PROTOCOL_INCLUDES "#include \"${folder}/module.h\"")
  set_property(GLOBAL APPEND PROPERTY LOCH_PROTOCOL_CALLS "  ${A_NAMESPACE}::add_modules(modules)")
  set_property(GLOBAL APPEND PROPERTY LOCH_PROTOCOL_LIBRARIES ${A_LIBRARY})
endfunction()

# Adds the protocols' folders, those of the source tree first. A macro, so that add_subdirectory runs in the caller's scope.
macro(loch_add_protocols)
  file(GLOB modules RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/*/module.h)
  foreach(module IN LISTS modules)
    cmake_path(GET module PARENT_PATH folder)
    add_subdirectory(${folder})
  endforeach()
  foreach(folder IN LISTS LOCH_PROTOCOLS)
    cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY ${CMAKE_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE place)
    string(REGEX REPLACE "/$" "" place ${place})
    cmake_path(GET place FILENAME name)
    if(NOT EXISTS ${place}/CMakeLists.txt)
      message(FATAL_ERROR "LOCH_PROTOCOLS: ${folder}: no CMakeLists.txt there; ./loch new makes a folder that has one")
    endif()
    if(EXISTS ${CMAKE_SOURCE_DIR}/${name})
      message(FATAL_ERROR "LOCH_PROTOCOLS: ${folder}: a folder of Loch has that name; files would be taken for one another's")
    endif()
    add_subdirectory(${place} ${CMAKE_BINARY_DIR}/protocols/${name})
  endforeach()
  loch_write_registry()
endmacro()

# Makes the library loch_protocols: all protocols, and the generated function that adds them to a registry.
function(loch_write_registry)
  get_property(includes GLOBAL PROPERTY LOCH_PROTOCOL_INCLUDES)
  get_property(calls GLOBAL PROPERTY LOCH_PROTOCOL_CALLS)
  get_property(libraries GLOBAL PROPERTY LOCH_PROTOCOL_LIBRARIES)
  list(JOIN includes "\n" LOCH_INCLUDES)
  list(JOIN calls ";\n" LOCH_CALLS)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/protocols.cc.in ${CMAKE_BINARY_DIR}/protocols.cc @ONLY)
  add_library(loch_protocols STATIC ${CMAKE_BINARY_DIR}/protocols.cc)
  # PRIVATE, so that the include path of a folder outside the source tree is a flag of that folder's files only.
  # Otherwise all files of the program would be compiled again for each such folder.
  target_link_libraries(loch_protocols PUBLIC loch_flags loch_kv PRIVATE ${libraries})
endfunction()
