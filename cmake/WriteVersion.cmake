# Run as a script by the build: writes OUTPUT from INPUT with the git commit of SOURCE. git is
# optional, and a clone owned by another user (a container's bind mount) is accepted.
set(LOCH_COMMIT unknown)
set(LOCH_DIRTY false)
find_program(git_program git)
if(git_program)
  set(git ${git_program} --no-optional-locks -c safe.directory=* -C ${SOURCE})
  execute_process(COMMAND ${git} rev-parse --show-toplevel HEAD
    OUTPUT_VARIABLE answer ERROR_QUIET RESULT_VARIABLE status OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" answer "${answer}")
  get_filename_component(source "${SOURCE}" REALPATH)
  if(status EQUAL 0)
    list(GET answer 0 top)
    # A copy that lies inside some other project's repository has no commit of its own.
    if(top STREQUAL source)
      list(GET answer 1 LOCH_COMMIT)
      execute_process(COMMAND ${git} status --porcelain --untracked-files=no
        OUTPUT_VARIABLE changed ERROR_QUIET)
      if(NOT changed STREQUAL "")
        set(LOCH_DIRTY true)
      endif()
    endif()
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
