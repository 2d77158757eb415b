#!/usr/bin/env bash
# Installs capl below the build folder, moves it, builds c_example.c against it with pkg-config, runs it, uninstalls.
# Arguments: build folder. Environment: CC, CFLAGS, CAPL_SOURCE_DIR.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=$1
prefix=$build/tests/prefix
moved=$build/tests/moved
rm -rf "$prefix" "$moved"

# The manifest of the user's own install, if there is one, is put back at the end.
manifest=$build/install_manifest.txt
kept=$build/tests/install_manifest.kept
if [[ -e $manifest ]]; then
  cp "$manifest" "$kept"
  trap 'mv "$kept" "$manifest"' EXIT
fi
cmake --install "$build" --prefix "$prefix" >/dev/null

# Whatever the tree is asked for must work wherever it is put.
mkdir "$moved"
cp -a "$prefix" "$moved/capl"
export PKG_CONFIG_PATH=$moved/capl/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs capl) ${CFLAGS:-}"
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror "$CAPL_SOURCE_DIR/tests/unit/c_example.c" "${flags[@]}" \
  -Wl,-rpath,"$moved/capl/lib" -o "$moved/c_example"
LD_LIBRARY_PATH='' "$moved/c_example"
[[ $(pkg-config --modversion capl) == $(sed -n 's/^project(capl VERSION \([0-9.]*\).*/\1/p' "$CAPL_SOURCE_DIR/CMakeLists.txt") ]]

for file in bin/capl lib/capl/libcapl_cpu.so include/capl/ops.def share/capl/recipes/captcha.lua share/doc/capl/LICENSE; do
  [[ -e $moved/capl/$file ]] || { echo "not installed: $file" >&2; exit 1; }
done
# An empty entry in a run path is the current folder: nobody's library should be loaded from there.
for file in "$moved"/capl/bin/capl "$moved"/capl/lib/libcapl.so "$moved"/capl/lib/capl/*.so "$build"/capl; do
  runpath=$(readelf -d "$file" | sed -n 's/.*runpath: \[\(.*\)\]/:\1:/p')
  [[ $runpath != *::* ]] || { echo "$file: run path with an empty entry: $runpath" >&2; exit 1; }
done
"$moved/capl/bin/capl" -e 'print(1 + 1)' | grep -qx 2

cmake --build "$build" --target uninstall >/dev/null
left=$(cd "$prefix" && find . ! -type d -o -name capl)
[[ -z $left ]] || { echo "uninstall leaves: $left" >&2; exit 1; }
[[ -d $prefix/lib && -d $prefix/share/doc ]] || { echo "uninstall removes folders that are not capl's" >&2; exit 1; }
