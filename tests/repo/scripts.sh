#!/usr/bin/env bash
# Every script explains itself and refuses what it does not know; install says what to do where it cannot become root.
# Arguments: scratch folder. Environment: CAPL_SOURCE_DIR.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

scratch=$1
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$CAPL_SOURCE_DIR"

unset CAPL_BUILD_DIR CAPL_BIN # of the build under test, which is not to be touched

fail() { echo "$*" >&2; exit 1; }

for script in scripts/*; do
  [[ -x $script ]] || continue
  "$script" -h >"$scratch/help.txt" 2>&1 || fail "$script -h fails"
  grep -q '^usage: ' "$scratch/help.txt" || fail "$script -h shows no usage"
  [[ $script == scripts/quickstart ]] && continue # it hands options to the recipe
  if "$script" --no-such-option >"$scratch/refused.txt" 2>&1; then fail "$script takes --no-such-option"; fi
  grep -q -- '--no-such-option' "$scratch/refused.txt" || fail "$script does not name the option it refuses"
done

# A mistake in C is shown, not hidden in a log.
mkdir "$scratch/tree"
cp -r CMakeLists.txt engine include lua recipes docs README.md LICENSE scripts "$scratch/tree"
echo 'this is no C' >>"$scratch/tree/engine/base/error.c"
if CAPL_JOBS=2 "$scratch/tree/scripts/build" >"$scratch/out.txt" 2>&1; then fail "build succeeds with a mistake"; fi
grep -q 'engine/base/error.c.*error' "$scratch/out.txt" || fail "build does not show the compiler's message"

# The plan counts the CUDA backend only where it will be built.
CAPL_CUDA=OFF scripts/quickstart --dry-run >"$scratch/out.txt" || fail "quickstart --dry-run"
grep -q '^In all about [0-9]* minutes' "$scratch/out.txt" || fail "quickstart does not say how long it takes"
if grep -q 'CUDA backend' "$scratch/out.txt"; then fail "quickstart counts a backend that is left out"; fi

# A package that is missing, and nobody who could install it.
box=$(mktemp -d) # where nobody may look, which the build folder need not be
trap 'rm -rf "$box"' EXIT
mkdir "$box/scripts"
cp scripts/install scripts/packages scripts/quickstart scripts/build "$box/scripts"
echo 'build capl-has-no-such-package' >>"$box/scripts/packages"
chmod -R a+rX "$box"
as_nobody=()
[[ $(id -u) -eq 0 ]] && as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
mkdir "$box/bin" # everything but sudo
for tool in /usr/bin/* /bin/*; do
  [[ $tool == */sudo ]] || ln -sf "$tool" "$box/bin/"
done
run_as_nobody() { "${as_nobody[@]}" env PATH="$box/bin" "$@" </dev/null; }

if ! command -v dpkg-query >/dev/null; then exit 0; fi # no Debian: nothing more to see
if run_as_nobody "$box/scripts/quickstart" >"$scratch/out.txt" 2>&1; then fail "quickstart goes on without a package"; fi
grep -q '^  1. install .*capl-has-no-such-package' "$scratch/out.txt" || fail "quickstart does not say what it installs"
grep -q '^  apt-get update && apt-get install .*capl-has-no-such-package' "$scratch/out.txt" ||
  fail "quickstart does not print the apt line"
[[ $(run_as_nobody "$box/scripts/install" --list build) == *capl-has-no-such-package* ]] || fail "install --list"
