#!/usr/bin/env bash
# scripts/new-op in a copy of the tree: the new op compiles, the tests name every missing part, and filled in it passes.
# Arguments: folder for the copy. Environment: CAPL_SOURCE_DIR, CC.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

copy=$1
rm -rf "$copy"
mkdir -p "$copy"
cd "$CAPL_SOURCE_DIR"
for part in CMakeLists.txt engine include lua scripts recipes docs README.md LICENSE tests; do
  cp -r "$part" "$copy"
done
cd "$copy"
unset CAPL_BIN CAPL_BUILD_DIR CAPL_SOURCE_DIR

build() {
  cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug -DCAPL_TESTS=ON >/dev/null
  cmake --build build -j "$(nproc)" --target unit_op_call capl_module >build.txt 2>&1 || { cat build.txt >&2; exit 1; }
}
run_tests() { CAPL_OP=snap CAPL_TEST_BACKENDS=ref ctest --test-dir build -R '^(unit/op_call|op/native)$' --output-on-failure >tests.txt 2>&1; }

expect_refused() {
  local message=$1
  shift
  if scripts/new-op "$@" >refused.txt 2>&1; then echo "new-op $* is not refused" >&2; exit 1; fi
  grep -qF "$message" refused.txt || { cat refused.txt >&2; exit 1; }
}
expect_refused "there is an op 'relu' already" relu --like tanh
expect_refused "there is no op 'rely' to be like" snap --like rely
expect_refused "there is no family 'zoo'" snap --like relu --family zoo
expect_refused "'Snap' is not made of small letters" Snap --like relu

# As made: it builds, and doc, kernel and cases are missed by name.
scripts/new-op snap --like affine >/dev/null
build
if run_tests; then echo "the tests are content with an unfinished op" >&2; exit 1; fi
for missing in 'snap lacks doc' "snap: ''" 'has a case'; do
  grep -qF "$missing" tests.txt || { echo "not named: $missing" >&2; cat tests.txt >&2; exit 1; }
done

# With cases but no arithmetic.
cat >tests/op/snap.lua <<'END'
-- Cases of snap.
-- SPDX-License-Identifier: Apache-2.0
local gen = require("gen")
return {{op = "snap", inputs = {gen.values {3, values = {1.2, -0.3, 2.5}}}, attrs = {scale = 2, shift = 1}, batch = false,
  expect = {{3, 0, 6}}}}
END
if run_tests; then echo "the tests are content with an op without arithmetic" >&2; exit 1; fi
grep -qF 'the reference kernel is not written' tests.txt || { cat tests.txt >&2; exit 1; }

# Filled in.
sed -i '/NAME_AND_ATTRS(snap)/,/^};/s/\.doc = ""/.doc = "y = floor(scale * x + shift).\\n"\n         "x: any shape -> y alike. Not differentiable."/' \
  engine/ops/elementwise.c
sed -i '/^static capl_status ref_snap/,/^}/c\
static capl_status ref_snap(const capl_call *call)\
{\
  ref_walk w;\
  for (REF_WALK(\&w, call->out[0], call->in[0]); w.more; ref_walk_next(\&w))\
    ref_set(call->out[0], w.at[0], floor(call->attr[AT(snap, scale)].f * ref_get(call->in[0], w.at[1]) + call->attr[AT(snap, shift)].f));\
  return CAPL_OK;\
}' engine/backend/ref/elementwise.c
build
run_tests || { cat tests.txt >&2; exit 1; }
