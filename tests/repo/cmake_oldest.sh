#!/usr/bin/env bash
# The oldest CMake that CMakeLists.txt allows configures the tree, install rules included. It comes from PyPI.
# Arguments: folder that keeps it. Environment: CAPL_SOURCE_DIR, CC.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

folder=$1
oldest=$(sed -n 's/^cmake_minimum_required(VERSION \([0-9.]*\)).*/\1/p' "$CAPL_SOURCE_DIR/CMakeLists.txt")
cmake=$folder/$oldest/bin/cmake
mkdir -p "$folder"
if [[ ! -x $cmake ]] && ! { python3 -m venv "$folder/$oldest" && "$folder/$oldest/bin/pip" install -q "cmake==$oldest.*"; } >"$folder/pip.txt" 2>&1; then
  echo "skipped: cmake $oldest cannot be had from PyPI, so nothing here says that it is new enough: $(tail -n 1 "$folder/pip.txt")"
  exit 77
fi
[[ $("$cmake" --version | head -n 1) == "cmake version $oldest."* ]]
rm -rf "$folder/build"
"$cmake" -S "$CAPL_SOURCE_DIR" -B "$folder/build" -DCAPL_CUDA=OFF -DCAPL_CUDA_TESTS=OFF >"$folder/out.txt" 2>&1 ||
  { cat "$folder/out.txt"; exit 1; }
"$folder/$oldest/bin/cpack" --config "$folder/build/CPackConfig.cmake" --help >/dev/null
