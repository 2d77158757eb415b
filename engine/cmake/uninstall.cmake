# Removes the files named in MANIFEST, then capl's own folders where nothing else is left in them.
# SPDX-License-Identifier: Apache-2.0
if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "nothing to uninstall: ${MANIFEST} is written by cmake --install")
endif()

file(STRINGS ${MANIFEST} files)
set(folders "")
foreach(file IN LISTS files)
  file(REMOVE "$ENV{DESTDIR}${file}")
  cmake_path(GET file PARENT_PATH folder)
  list(APPEND folders ${folder})
endforeach()

# Deepest first. Only the folders that install.cmake made for capl alone are ours to remove.
list(REMOVE_DUPLICATES folders)
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
  while(folder MATCHES "/(include|share|share/doc|lib(/[^/]+)?)/capl(/.*)?$")
    file(GLOB rest "$ENV{DESTDIR}${folder}/*")
    if(rest)
      break()
    endif()
    file(REMOVE_RECURSE "$ENV{DESTDIR}${folder}")
    cmake_path(GET folder PARENT_PATH folder)
  endwhile()
endforeach()
message(STATUS "removed ${MANIFEST}'s files")
file(REMOVE ${MANIFEST})
