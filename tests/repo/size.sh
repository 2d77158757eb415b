#!/usr/bin/env bash
# scripts/size counts code alone, in each of its languages, and compares with a tag and a commit.
# Arguments: scratch folder. Environment: CAPL_SOURCE_DIR.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

scratch=$1
rm -rf "$scratch"
mkdir -p "$scratch"/tree/{scripts,engine/base,engine/backend/cpu,lua/capl/nn,tests}
cp "$CAPL_SOURCE_DIR/scripts/size" "$scratch/tree/scripts"
cd "$scratch/tree"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t

fail() { echo "$*" >&2; scripts/size "${ref:-HEAD}" >&2 || true; exit 1; }
# has LINE: a row of the last output, blanks squeezed.
has() { tr -s ' ' <"$scratch/out.txt" | sed 's/ *$//' | grep -qxF -- "$1" || { cat "$scratch/out.txt" >&2; fail "no row '$1'"; }; }

cat >engine/base/a.c <<'C'
/* a.c -- 3 lines of code. */
// a whole line

int a; /* behind code
   int not_code;
*/ int b; // behind a comment
  /* alone */
const char *text = "/* no comment";
C
printf '/* 1 line */\n#define B 1\n' >engine/backend/cpu/b.h
cat >lua/capl/nn/c.lua <<'LUA'
-- 6 lines of code.
--[[ local not_code = 1
]] local one = 1
--[==[ local not_code = ']]'
]==]
local two = "--[[" -- behind code
local three = [[
  -- text is code
]]

return one
LUA
printf '#!/bin/sh\n# no code\n\necho "#" # 1 line\n' >tests/d.sh
printf 'not counted\n' >engine/base/README.md
git init -q .
git add .
git commit -qm first
git tag v1

scripts/size v1 >"$scratch/out.txt" || fail "scripts/size v1"
has 'engine/base 3 3 +0 +0.0 %'
has 'engine/backend/cpu 1 1 +0 +0.0 %'
has 'lua/capl/nn 6 6 +0 +0.0 %'
has 'tests 1 1 +0 +0.0 %'
has 'engine + lua 10 10 +0 +0.0 %'

# Without an argument: against the last tag, with what is not committed yet.
printf 'int x;\nint y;\n' >engine/new.c
rm engine/backend/cpu/b.h
scripts/size >"$scratch/out.txt" || fail "scripts/size"
has 'engine 0 2 +2 new'
has 'engine/backend/cpu 1 0 -1 -100.0 %'
has 'engine + lua 10 11 +1 +10.0 %'

if scripts/size no-such-ref >"$scratch/out.txt" 2>&1; then fail "takes a commit that is not there"; fi
grep -q "no tag or commit 'no-such-ref'" "$scratch/out.txt" || fail "does not name the missing commit"
git tag -d v1 >/dev/null
scripts/size >"$scratch/out.txt" 2>"$scratch/err.txt" || fail "fails without a tag"
has 'engine + lua 11'
grep -q 'no tag yet' "$scratch/err.txt" || fail "does not say that there is no tag"
