# Whether libcapl_cuda is built: CAPL_CUDA=AUTO (where the toolkit and cuDNN are found), ON (or fail), OFF.
# Sets CAPL_CUDA_FOUND; prints the decision.
#   CAPL_CUDA_ARCHS   compute capabilities to make machine code for, ascending; PTX of the last for newer cards
# SPDX-License-Identifier: Apache-2.0

set(CAPL_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO, ON or OFF")
set_property(CACHE CAPL_CUDA PROPERTY STRINGS AUTO ON OFF)
set(CAPL_CUDA_ARCHS "75;80;86;89;90" CACHE STRING "Compute capabilities, ascending: 80;90")
set(CAPL_CUDA_FOUND OFF)

include(${CMAKE_CURRENT_LIST_DIR}/toolkit.cmake)

function(find_cuda why)
  set(trouble "")
  # nvcc is often not on the PATH: the toolkit's usual place is looked at too. CUDA_HOME goes before the PATH.
  find_program(CAPL_NVCC nvcc PATHS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin NO_DEFAULT_PATH)
  find_program(CAPL_NVCC nvcc PATHS /usr/local/cuda/bin)
  # The toolkit's own folders; "lib" in those that are made of Python packages.
  get_filename_component(home "${CAPL_NVCC}" DIRECTORY)
  get_filename_component(home "${home}" DIRECTORY)
  find_path(CAPL_CUDNN_INCLUDE_DIR cudnn_graph.h HINTS $ENV{CUDNN_HOME}/include ${home}/include
    PATHS /usr/local/cuda/include)
  find_library(CAPL_CUDNN_LIBRARY NAMES cudnn_graph libcudnn_graph.so.9
    HINTS $ENV{CUDNN_HOME}/lib ${home}/lib64 ${home}/lib PATHS /usr/local/cuda/lib64)
  if(NOT CAPL_NVCC)
    set(trouble "no nvcc; set CUDA_HOME to the toolkit")
  elseif(NOT CAPL_CUDNN_INCLUDE_DIR OR NOT CAPL_CUDNN_LIBRARY)
    set(trouble "no cuDNN 9 (cudnn_graph.h, libcudnn_graph.so); set CUDNN_HOME to its folder")
  else()
    check_toolkit(${CAPL_NVCC} trouble)
  endif()
  set(${why} "${trouble}" PARENT_SCOPE)
endfunction()

if(CAPL_CUDA STREQUAL "OFF")
  message(STATUS "CUDA backend: off, as asked")
elseif(CAPL_SANITIZE OR CAPL_FUZZ)
  message(STATUS "CUDA backend: off in sanitizer builds")
else()
  find_cuda(why)
  if(why STREQUAL "")
    set(CMAKE_CUDA_COMPILER ${CAPL_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES OFF)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CAPL_CUDA_FOUND ON)
    set(CAPL_CUDA_ARCHS_LIST ${CAPL_CUDA_ARCHS})
    list(TRANSFORM CAPL_CUDA_ARCHS APPEND "-real" OUTPUT_VARIABLE CAPL_CUDA_CODE)
    list(GET CAPL_CUDA_ARCHS -1 newest)
    list(APPEND CAPL_CUDA_CODE "${newest}-virtual")
    message(STATUS "CUDA backend: on, toolkit ${CUDAToolkit_VERSION}, code for ${CAPL_CUDA_ARCHS} and newer")
  elseif(CAPL_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CAPL_CUDA=ON, but there is ${why}")
  else()
    message(STATUS "CUDA backend: off: ${why}")
  endif()
endif()
