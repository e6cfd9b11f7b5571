# cmake --install BUILD --prefix PREFIX installs what is needed to use Loch, without what only building needs.
#
#   bin/loch                            the command, without what needs the source tree (test, mutate, softroce, reference)
#   libexec/loch/loch-bench             the program
#   share/loch/                         experiments, the package that runs them, plots, workloads, reference results, gdb's script
#   share/doc/loch/                     README, pages, licence
#
# The command finds all other files relative to its own path, so that the prefix can be moved.
include(GNUInstallDirs)
set(LOCH_SHARE ${CMAKE_INSTALL_DATADIR}/loch)

install(TARGETS loch-bench RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/loch)

file(RELATIVE_PATH LOCH_SHARE_FROM_BIN /${CMAKE_INSTALL_BINDIR} /${LOCH_SHARE})
file(RELATIVE_PATH LOCH_PROGRAM_FROM_BIN /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBEXECDIR}/loch/loch-bench)
configure_file(cmake/loch.in ${CMAKE_BINARY_DIR}/installed/loch @ONLY)
install(PROGRAMS ${CMAKE_BINARY_DIR}/installed/loch DESTINATION ${CMAKE_INSTALL_BINDIR})

install(DIRECTORY experiments plots DESTINATION ${LOCH_SHARE}
  PATTERN __pycache__ EXCLUDE)
install(DIRECTORY workloads/ycsb workloads/traces DESTINATION ${LOCH_SHARE}/workloads)
install(DIRECTORY tools/loch DESTINATION ${LOCH_SHARE}/tools  # except for parts that need the source tree
  PATTERN __pycache__ EXCLUDE PATTERN setup EXCLUDE PATTERN softroce EXCLUDE PATTERN mutate EXCLUDE PATTERN new.py EXCLUDE)
install(DIRECTORY reference DESTINATION ${LOCH_SHARE}
  PATTERN report.html EXCLUDE PATTERN figure.* EXCLUDE)  # drawn by ./loch plot reference
install(FILES tools/gdb/loch_gdb.py DESTINATION ${LOCH_SHARE}/tools/gdb)

install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md CITATION.cff LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
