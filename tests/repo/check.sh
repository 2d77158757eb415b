#!/usr/bin/env bash
# The rules of scripts/check can fail: breaks each one in a copy of the tree and expects it to be named.
# Arguments: folder for the copy. Environment: CAPL_SOURCE_DIR.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

copy=$1
rm -rf "$copy"
mkdir -p "$copy"
cd "$CAPL_SOURCE_DIR"
cp -r include engine lua scripts recipes .luacheckrc CMakeLists.txt CHANGELOG.md "$copy"
cd "$copy"

CI=1 scripts/check || { echo "scripts/check is not content with the tree as it is" >&2; exit 1; }

spdx='SPDX-License-Identifier: Apache-2.0'
printf '/* purposeless.c\n** %s */\nint x;\n' "$spdx" >engine/base/purposeless.c
printf '/* unlicensed.c -- has no licence line. */\nint x;\n' >engine/base/unlicensed.c
{ printf -- '-- A file of a thousand lines.\n-- %s\n' "$spdx"; seq 1000 | sed 's/^/-- /'; } >lua/long.lua
printf '/* luafan.c -- knows Lua where it should not.\n** %s */\n#include <lua.h>\n' "$spdx" >engine/data/luafan.c
printf '/* upward.c -- knows a layer above its own.\n** %s */\n#include "tape/tape.h"\n#include "capl/tape.h"\n' "$spdx" \
  >engine/base/upward.c
printf '/* curious.c -- opens what it only has to start.\n** %s */\n#include "dist/world.h"\n' "$spdx" >engine/program/launch/curious.c
printf '/* round.h -- includes a file that includes it.\n** %s */\n#include "base/trip.h"\n' "$spdx" >engine/base/round.h
printf '/* trip.h -- likewise.\n** %s */\n#include "base/round.h"\n' "$spdx" >engine/base/trip.h
printf '/* chatty.c -- prints.\n** %s */\nvoid f(void) { printf("x"); }\n' "$spdx" >engine/io/chatty.c
printf '/* counting.c -- knows where an attribute is.\n** %s */\ndouble f(const capl_call *call) { return call->attr[1].f; }\n' \
  "$spdx" >engine/ops/counting.c
printf '/* positional.c -- sets attributes by their order.\n** %s */\ncapl_attr pad[CAPL_MAX_ATTR] = {CAPL_A_INT(1), CAPL_A_INT(0)};\n' \
  "$spdx" >engine/backend/ref/positional.c
printf '/* private.c -- is told what to do by an optimiser.\n** %s */\nint x;\n' "$spdx" >engine/base/private.c
printf -- '-- Knows which backends there are.\n-- %s\nreturn {"ref", "cpu"}\n' "$spdx" >lua/backends.lua
printf '/* lean.h -- forgets what it needs.\n** %s */\nint64_t x;\n' "$spdx" >include/capl/lean.h
{ printf -- '-- Has a long line.\n-- %s\nreturn 0' "$spdx"; printf ' + %d' {1000..1030}; echo; } >lua/wide.lua
printf 'Read by capl 0.1.0 or newer.\n' >older.txt
sed -i 's/^project(capl VERSION [0-9.]*/project(capl VERSION 0.1.0/; s/^## 0.*/## 0.0.9/' CMakeLists.txt CHANGELOG.md
printf '# see /ho%s/somebody/notes\n' me >notes.txt
# shellcheck disable=SC2016 # the script under test has the mistake, not this one
printf '#!/usr/bin/env bash\n# Forgets its quotes.\n# %s\nrm $1\n' "$spdx" >scripts/careless
printf -- '-- Sets a global.\n-- %s\nx = 1\n' "$spdx" >lua/global.lua

printf -- '-- upward.lua: knows who is above it.\n-- %s\nreturn {run = require "run", all = require "init"}\n' "$spdx" >lua/capl/nn/upward.lua
printf -- '-- setting.lua: sets what another file returned.\n-- %s\nlocal text = require "text"\nlocal function set(x) text.limit = x end\nreturn set\n' \
  "$spdx" >lua/capl/data/setting.lua
printf -- '-- one.lua: requires what requires it.\n-- %s\nreturn require("data.other")\n' "$spdx" >lua/capl/data/one.lua
printf -- '-- other.lua: does so when it is called.\n-- %s\nreturn function() return require "data.one" end\n' "$spdx" >lua/capl/data/other.lua
printf -- '-- asks.lua: asks the environment.\n-- %s\nlocal core = ...\nreturn core.sys.getenv("HOME")\n' "$spdx" >lua/capl/data/asks.lua

printf -- '-- asks.lua: knows kinds.\n-- %s\nlocal function draws(x, value) return x.kind == "mask" or value.text(x, "kind") == "regression" end\nreturn {draws, require "fields.points",\n  localization = draws}\n' \
  "$spdx" >lua/capl/report/asks.lua
printf '/* asks.c -- knows a kind.\n** %s */\nint f(const field_kind *kind) { return strcmp(kind->name, "points"); }\n' "$spdx" >engine/io/asks.c

mkdir engine/undescribed
printf '/* thing.c -- lives in a folder without README.\n** %s */\nint x;\n' "$spdx" >engine/undescribed/thing.c
# shellcheck disable=SC2016 # of the README
sed -i 's|`nvml.c`|`gone.c`|' engine/monitor/README.md
# shellcheck disable=SC2016
sed -i 's|`monitor/`|monitoring|' engine/README.md

git init -q
git -c user.name=somebody -c user.email=somebody@example.org commit -q --allow-empty \
  -m 'check: a subject that goes on until nobody can read it in a list of commits'

if CI=1 scripts/check >found.txt 2>&1; then
  echo "scripts/check is content with a broken tree" >&2
  exit 1
fi
missed=0
for expected in \
  'purpose: engine/base/purposeless.c:1' 'purpose: engine/base/unlicensed.c:1' 'size: lua/long.lua:1002' 'columns: lua/wide.lua:3' \
  'readme: engine/undescribed/README.md:1' \
  'readme: engine/monitor/README.md:1: names gone.c' 'readme: engine/README.md:1: does not name monitor/' 'lua_h: engine/data/luafan.c:3' \
  'direction: engine/base/upward.c:3' 'direction: engine/base/upward.c:4' 'direction: engine/program/launch/curious.c:3' 'silence: engine/io/chatty.c:3' 'kinds: lua/capl/report/asks.lua:3' 'kinds: lua/capl/report/asks.lua:4' 'kinds: lua/capl/report/asks.lua:5' 'kinds: engine/io/asks.c:3' 'backends: lua/backends.lua:3' \
  'attributes: engine/ops/counting.c:3' 'attributes: engine/backend/ref/positional.c:3' \
  'lua_direction: lua/capl/nn/upward.lua:3: requires run' 'lua_direction: lua/capl/nn/upward.lua:3: requires init' \
  'lua_circles: lua/capl: data.one' 'lua_circles: lua/capl: data.other' 'module_state: lua/capl/data/setting.lua:4' 'environment: lua/capl/data/asks.lua:4' \
  'words: engine/base/private.c:1:.* reports' 'words: engine/base/private.c:1:.* PyTorch' \
  'subjects: commit: check: a subject that goes on' 'circles: engine/base/round is in' 'circles: engine/base/trip is in' \
  'headers: .*lean.h:3:.*std=c11' 'headers: .*lean.h:3:.*std=c++17' 'places: notes.txt:1' 'version: CHANGELOG.md' 'version: older.txt:1' \
  'shell: scripts/careless:4' 'lua: lua/global.lua:3'; do
  grep -q "^$expected" found.txt || { echo "not reported: $expected" >&2; missed=1; }
done
# A rule without a file above that breaks it may have stopped finding anything.
while read -r rule _; do
  grep -q "^$rule: " found.txt || { echo "rule $rule: no file of this test breaks it" >&2; missed=1; }
done < <(scripts/check --list)
[[ $missed -eq 0 ]] || { cat found.txt >&2; exit 1; }
