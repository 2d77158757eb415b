# The CUDA toolkit that the backend needs.
# SPDX-License-Identifier: Apache-2.0

set(CAPL_CUDA_LEAST 12.8) # cudaLibraryLoadData

# Sets why to "" where nvcc is of a toolkit that will do, else to what there is instead.
function(check_toolkit nvcc why)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(NOT text MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${why} "an nvcc without a readable version (${nvcc})" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS CAPL_CUDA_LEAST)
    set(${why} "the toolkit of CUDA ${CMAKE_MATCH_1} (${nvcc}), ${CAPL_CUDA_LEAST} or newer is needed; set CUDA_HOME to one"
      PARENT_SCOPE)
  else()
    set(${why} "" PARENT_SCOPE)
  endif()
endfunction()
