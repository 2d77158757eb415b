# Debian packages and archives of the install tree, made by cpack; included last. scripts/package calls it.
#
#   libcapl0    the library and what it loads      capl       program, recipes, docs, the Lua module
#   libcapl-dev headers, pkg-config                capl-cuda  the CUDA backend      capl-mpi  ranks on processors and hosts
#
# SPDX-License-Identifier: Apache-2.0
set(CPACK_PACKAGE_NAME capl)
set(CPACK_PACKAGE_VENDOR capl)
set(CPACK_PACKAGE_CONTACT "capl maintainers <maintainers@capl.invalid>" CACHE STRING "Maintainer of the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training engine for captcha recognizers in C and Lua")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_SOURCE_GENERATOR "")
set(CPACK_GENERATOR TGZ DEB)
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(CPACK_PACKAGE_FILE_NAME capl-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR}) # libcapl0's own dependency is written below
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

# capl_package(component name section depends contents)
function(capl_package component name section depends contents)
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "capl trains networks that recognize images, first of all captchas.\nExperiments are Lua recipes, the engine is written in C.\nThis package contains ${contents}." PARENT_SCOPE)
  # Debian's files of a package. A plain install leaves them out.
  install(FILES ${CMAKE_BINARY_DIR}/debian/copyright ${CMAKE_BINARY_DIR}/debian/changelog.gz COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} EXCLUDE_FROM_ALL)
endfunction()

string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${CMAKE_BINARY_DIR}/debian/changelog "capl (${PROJECT_VERSION}) unstable; urgency=medium

  * What changed is in CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${now}
")
file(WRITE ${CMAKE_BINARY_DIR}/debian/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: capl

Files: *
Copyright: 2026 the contributors of capl
License: Apache-2.0
 The full text of the license is in /usr/share/common-licenses/Apache-2.0.
")
find_program(GZIP gzip REQUIRED)
execute_process(COMMAND ${GZIP} -9 -n -f -k ${CMAKE_BINARY_DIR}/debian/changelog COMMAND_ERROR_IS_FATAL ANY)

set(CPACK_COMPONENTS_ALL "")
set(lib "libcapl${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
capl_package(lib libcapl${PROJECT_VERSION_MAJOR} libs "" "the library and the parts that it loads")
capl_package(dev libcapl-dev libdevel "${lib}" "headers and the file of pkg-config")
if(TARGET capl)
  capl_package(program capl science "${lib}, fonts-noto-mono, fonts-dejavu-core"
    "the program, its recipes, its documentation\nand the module for LuaJIT")
endif()
if(TARGET capl_cuda) # cuDNN, cuBLAS, NVRTC and NCCL are NVIDIA's, whose packages have other names with each version
  capl_package(cuda capl-cuda contrib/science "${lib}" "the backend for NVIDIA GPUs")
endif()
if(TARGET capl_mpi)
  capl_package(mpi capl-mpi science "${lib}, openmpi-bin" "what connects ranks on processors and\nhosts through Open MPI")
endif()

set(soname ${PROJECT_VERSION_MAJOR})
file(WRITE ${CMAKE_BINARY_DIR}/debian/shlibs "libcapl ${soname} ${lib}\nlibcapl_synth ${soname} ${lib}\n")
file(WRITE ${CMAKE_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/debian/shlibs ${CMAKE_BINARY_DIR}/debian/triggers)
include(CPack)
