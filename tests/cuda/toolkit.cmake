# Which toolkits the build takes, by what their nvcc says.
# usage: cmake -DWORK=DIR -P toolkit.cmake
# SPDX-License-Identifier: Apache-2.0
include(${CMAKE_CURRENT_LIST_DIR}/../../engine/cmake/toolkit.cmake)

# An nvcc that prints text.
function(expect text want)
  file(WRITE ${WORK}/nvcc "#!/bin/sh\necho '${text}'\n")
  file(CHMOD ${WORK}/nvcc PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  check_toolkit(${WORK}/nvcc why)
  if(NOT why STREQUAL want)
    message(FATAL_ERROR "${text}: '${why}', not '${want}'")
  endif()
endfunction()

foreach(version IN ITEMS 12.8 12.9 13.0 13.10 14.0)
  expect("Cuda compilation tools, release ${version}, V${version}.61" "")
endforeach()
foreach(version IN ITEMS 11.8 12.4 12.7)
  expect("Cuda compilation tools, release ${version}, V${version}.99"
    "the toolkit of CUDA ${version} (${WORK}/nvcc), 12.8 or newer is needed; set CUDA_HOME to one")
endforeach()
expect("hello" "an nvcc without a readable version (${WORK}/nvcc)")
message("9 toolkits")
