#!/usr/bin/env bash
# Installs capl below the build folder, moves it, builds c_example.c against it with pkg-config, runs it, uninstalls; the
# same below DESTDIR.
# Arguments: build folder. Environment: CC, CAPL_SOURCE_DIR.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

build=$1
prefix=$build/tests/prefix
moved=$build/tests/moved
rm -rf "$prefix" "$moved"

fail() { echo "$*" >&2; exit 1; }

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
read -ra flags <<<"$(pkg-config --cflags --libs capl)"
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror "$CAPL_SOURCE_DIR/tests/unit/c_example.c" "${flags[@]}" \
  -Wl,-rpath,"$moved/capl/lib" -o "$moved/c_example"
LD_LIBRARY_PATH='' "$moved/c_example"
# The command of docs/model-file.md, to the letter.
command=$(grep -o '^    cc docs/examples/predict.c .*' "$CAPL_SOURCE_DIR/docs/model-file.md")
(cd "$CAPL_SOURCE_DIR" && eval "${command/-o predict/-o $moved/predict}")
said=$(LD_LIBRARY_PATH='' "$moved/predict" 2>&1) || true
[[ $said == usage:* ]] || fail "docs/model-file.md, the program in C: $said"
[[ $(pkg-config --modversion capl) == $(sed -n 's/^project(capl VERSION \([0-9.]*\).*/\1/p' "$CAPL_SOURCE_DIR/CMakeLists.txt") ]]

for file in bin/capl lib/capl/libcapl_cpu.so lib/capl/libcapl_report.so lib/capl/libcapl_proto.so lib/capl/libcapl_serve.so lib/libcapl_synth.so lib/lua/5.1/capl.so lib/capl/capl-lmdb include/capl/ops.def share/capl/recipes/captcha.lua share/doc/capl/LICENSE share/man/man1/capl.1.gz \
  share/bash-completion/completions/capl share/zsh/site-functions/_capl; do
  [[ $file == share/[mbz]* && ! -e $build/shell ]] && continue # which a build with sanitizers leaves out
  [[ -e $moved/capl/$file ]] || fail "not installed: $file"
done
# An empty entry in a run path is the current folder: nobody's library should be loaded from there.
for file in "$moved"/capl/bin/capl "$moved"/capl/lib/libcapl.so "$moved"/capl/lib/capl/*.so "$moved"/capl/lib/lua/5.1/capl.so "$build"/capl; do
  runpath=$(readelf -d "$file" | sed -n 's/.*runpath: \[\(.*\)\]/:\1:/p')
  [[ $runpath != *::* ]] || fail "$file: run path with an empty entry: $runpath"
done

# From anywhere: by its path, through PATH and through a link, it finds its libraries, the backend and the font.
installed=$moved/capl/bin/capl
recipe=$moved/capl/share/capl/recipes/captcha.lua
mkdir "$moved/bin" "$moved/away"
ln -s ../capl/bin/capl "$moved/bin/capl"
for command in "$installed" "$moved/bin/capl" "$build/capl"; do
  (cd / && "$command" -e 'print(1 + 1)') | grep -qx 2 || fail "$command does not run in /"
done
(cd "$moved/away" && PATH=$moved/bin:$PATH capl info) >"$moved/info.txt"
grep -q '^  cpu  *oneDNN' "$moved/info.txt" || fail "capl through PATH finds no cpu backend"
(cd "$moved/away" && "$moved/bin/capl" captcha --help) >"$moved/help.txt" # not into a pipe, which grep -q leaves in the middle
grep -qF "capl $recipe" "$moved/help.txt" || fail "an installed capl does not know its recipes"
(cd "$moved/away" && OMP_NUM_THREADS=1 "$installed" "$recipe" --samples=32 --batch=16 --test=4 --files=2 --warmup=1) >"$moved/run.txt" ||
  { cat "$moved/run.txt" >&2; fail "the installed recipe does not run"; }
grep -q '^final exact=' "$moved/run.txt" || fail "the installed recipe has no result"
[[ -f $moved/away/runs/captcha/settings.json ]] || fail "a run does not write where it was started"
for file in curves.png events.out.tfevents.* report.html checkpoints/*.capl; do
  compgen -G "$moved/away/runs/captcha/$file" >/dev/null || fail "an installed capl leaves no $file"
done

# Without the library that draws, folders train as before, and a captcha says what is missing.
rm "$moved"/capl/lib/libcapl_synth.so*
said=$("$installed" -e 'data.captcha{}' 2>&1) && fail "captchas are drawn without libcapl_synth.so"
[[ $said == *'generating images is not available'*'hint: '*libcapl_synth.so* ]] || fail "without libcapl_synth.so: $said"
(cd "$moved/away" && "$build/capl" generate --out=ten --n=10 >"$moved/generate.txt" &&
  "$installed" predict runs/captcha/best.capl ten && "$installed" -e '
    local set = data.folder("ten", {label = "^(.-)_", charset = "0-9A-Z"})
    local model = nn.Sequential{nn.Flatten(), nn.Linear(set:width() * set:height(), 2)}
    local opt = optim.SGD(model:parameters(), {lr = 0.1})
    for batch in data.loader{source = set, batch = 5, role = "train"}:epoch(1) do opt:backward_step(model(batch.image):mean()) end') \
  >"$moved/alone.txt" 2>&1 || { cat "$moved/alone.txt" >&2; fail "libcapl alone does not predict and train"; }

cmake --build "$build" --target uninstall >/dev/null
left_in() { (cd "$1" && find . ! -type d -o -name capl); }
[[ -z $(left_in "$prefix") ]] || fail "uninstall leaves: $(left_in "$prefix")"
[[ -d $prefix/lib && -d $prefix/share/doc ]] || fail "uninstall removes folders that are not capl's"

# As a packager does it: a prefix that is not there yet, below DESTDIR. What others put beside it stays.
stage=$build/tests/stage
rm -rf "$stage"
DESTDIR=$stage cmake --install "$build" --prefix /opt/somewhere >/dev/null
[[ -x $stage/opt/somewhere/bin/capl && ! -e /opt/somewhere/bin/capl ]] || fail "DESTDIR is not where it installs"
(cd / && "$stage/opt/somewhere/bin/capl" info) >"$moved/info.txt"
grep -q '^  cpu  *oneDNN' "$moved/info.txt" || fail "capl below DESTDIR finds no cpu backend"
mkdir -p "$stage/opt/somewhere/share/capl/recipes"
echo '-- mine' >"$stage/opt/somewhere/share/capl/recipes/mine.lua"
DESTDIR=$stage cmake --build "$build" --target uninstall >/dev/null
[[ $(left_in "$stage" | sort | tr '\n' ' ') == './opt/somewhere/share/capl ./opt/somewhere/share/capl/recipes/mine.lua ' ]] ||
  fail "uninstall below DESTDIR leaves: $(left_in "$stage")"
if cmake --build "$build" --target uninstall >"$moved/out.txt" 2>&1; then fail "it uninstalls twice"; fi
grep -q 'nothing to uninstall' "$moved/out.txt" || fail "uninstall does not say that there is nothing: $(cat "$moved/out.txt")"
rm -rf "$prefix" "$moved" "$stage"
