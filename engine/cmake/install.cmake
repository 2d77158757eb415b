# What `cmake --install` puts where; included last by the top CMakeLists.txt.
#
#   bin/capl   lib/libcapl.so   lib/libcapl_synth.so   lib/capl/{libcapl_{cpu,cuda,mpi,loopback,report,proto,serve}.so,capl-lmdb}   include/capl/   lib/pkgconfig/capl.pc
#   lib/lua/5.1/capl.so         the module for LuaJIT
#   share/capl/recipes/         share/doc/capl/   share/man/man1/capl.1.gz   share/{bash-completion/completions,zsh/site-functions}/
#
# The tree can be moved: programs find libraries, and the pkg-config file its prefix, relative to themselves.
# SPDX-License-Identifier: Apache-2.0

set(docdir ${CMAKE_INSTALL_DATADIR}/doc/capl)
set(backenddir ${CMAKE_INSTALL_LIBDIR}/capl)

# Components are the packages of package.cmake.
install(TARGETS capl_core LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib NAMELINK_COMPONENT dev)
install(TARGETS capl_synth LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib) # loaded by its name without version
if(TARGET capl)
  install(TARGETS capl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
foreach(part IN ITEMS capl_cpu:lib capl_report:lib capl_proto:lib capl_serve:program capl_cuda:cuda capl_mpi:mpi capl_loopback:mpi)
  string(REGEX REPLACE ":(.*)" "" part ${part})
  set(component ${CMAKE_MATCH_1})
  if(TARGET ${part})
    set_target_properties(${part} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/..")
    install(TARGETS ${part} LIBRARY DESTINATION ${backenddir} COMPONENT ${component})
  endif()
endforeach()
install(TARGETS capl_lmdb RUNTIME DESTINATION ${backenddir} COMPONENT lib)
set_target_properties(capl_module PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/../..")
install(TARGETS capl_module LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lua/5.1 COMPONENT program)

install(DIRECTORY include/capl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(DIRECTORY recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/capl COMPONENT program OPTIONAL FILES_MATCHING PATTERN "*.lua")
install(FILES README.md README.zh-CN.md CHANGELOG.md SECURITY.md LICENSE DESTINATION ${docdir} COMPONENT program)
install(DIRECTORY docs DESTINATION ${docdir} COMPONENT program)

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
  install(FILES ${shell}/capl.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${shell}/capl DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
  install(FILES ${shell}/_capl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
endif()

# capl.pc lies in <libdir>/pkgconfig; ${pcfiledir} leads back to the prefix.
file(RELATIVE_PATH CAPL_PC_TO_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" CAPL_PC_TO_PREFIX ${CAPL_PC_TO_PREFIX})
configure_file(engine/cmake/capl.pc.in capl.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/capl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# `cmake --build build --target uninstall` removes the files of the last install and the folders it left empty.
add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
    -P ${PROJECT_SOURCE_DIR}/engine/cmake/uninstall.cmake
  COMMENT "Removing what install_manifest.txt lists" VERBATIM)
