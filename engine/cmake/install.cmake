# What `cmake --install` puts where; included last by the top CMakeLists.txt.
#
#   bin/capl   lib/libcapl.so   lib/libcapl_synth.so   lib/capl/{libcapl_{cpu,cuda,mpi,loopback,report,proto}.so,capl-lmdb}   include/capl/   lib/pkgconfig/capl.pc
#   share/capl/recipes/         share/doc/capl/   share/man/man1/capl.1.gz   share/{bash-completion/completions,zsh/site-functions}/
#
# The tree can be moved: programs find libraries, and the pkg-config file its prefix, relative to themselves.
# SPDX-License-Identifier: Apache-2.0

set(docdir ${CMAKE_INSTALL_DATADIR}/doc/capl)
set(backenddir ${CMAKE_INSTALL_LIBDIR}/capl)

install(TARGETS capl_core capl_synth LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET capl)
  install(TARGETS capl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(part IN ITEMS capl_cpu capl_cuda capl_mpi capl_loopback capl_report capl_proto)
  if(TARGET ${part})
    set_target_properties(${part} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/..")
    install(TARGETS ${part} LIBRARY DESTINATION ${backenddir})
  endif()
endforeach()

install(TARGETS capl_lmdb RUNTIME DESTINATION ${backenddir})

install(DIRECTORY include/capl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/capl OPTIONAL FILES_MATCHING PATTERN "*.lua")
install(FILES README.md README.zh-CN.md LICENSE DESTINATION ${docdir})
install(DIRECTORY docs DESTINATION ${docdir})

# The program itself writes its manual page and what shells complete; not when it was built for another machine.
if(TARGET capl AND NOT CMAKE_CROSSCOMPILING AND NOT CAPL_SANITIZE)
  find_program(GZIP gzip REQUIRED)
  set(shell ${CMAKE_BINARY_DIR}/shell)
  file(MAKE_DIRECTORY ${shell})
  add_custom_command(OUTPUT ${shell}/capl.1.gz ${shell}/capl ${shell}/_capl
    COMMAND $<TARGET_FILE:capl> man > ${shell}/capl.1
    COMMAND ${GZIP} -9 -n -f ${shell}/capl.1
    COMMAND $<TARGET_FILE:capl> completion bash > ${shell}/capl
    COMMAND $<TARGET_FILE:capl> completion zsh > ${shell}/_capl
    DEPENDS capl COMMENT "Writing the manual page and completions" VERBATIM)
  add_custom_target(capl_shell ALL DEPENDS ${shell}/capl.1.gz ${shell}/capl ${shell}/_capl)
  install(FILES ${shell}/capl.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${shell}/capl DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${shell}/_capl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
endif()

# capl.pc lies in <libdir>/pkgconfig; ${pcfiledir} leads back to the prefix.
file(RELATIVE_PATH CAPL_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" CAPL_PC_TO_PREFIX ${CAPL_PC_TO_PREFIX})
configure_file(engine/cmake/capl.pc.in capl.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/capl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# `cmake --build build --target uninstall` removes the files of the last install and the folders it left empty.
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
    -P ${PROJECT_SOURCE_DIR}/engine/cmake/uninstall.cmake
  COMMENT "Removing what install_manifest.txt lists" VERBATIM)
