# Writes OUTPUT, a C file with every Lua file below ROOT as bytes: capl_embedded[] = {path, text, length}.
# cmake -DROOT=lua/capl -DOUTPUT=embedded.c -P embed.cmake
# SPDX-License-Identifier: Apache-2.0
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/*.lua)
list(SORT files)
set(arrays "")
set(rows "")
set(i 0)
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char text_${i}[] = {\n${bytes}0};\n")
  string(APPEND rows "  {\"${file}\", (const char *)text_${i}, sizeof text_${i} - 1},\n")
  math(EXPR i "${i} + 1")
endforeach()
file(WRITE ${OUTPUT} "/* Made by embed.cmake from lua/capl. */\n#include \"bind/embedded.h\"\n\n${arrays}\n"
  "const capl_embedded_file capl_embedded[] = {\n${rows}  {0, 0, 0}};\n")
