#!/usr/bin/env bash
# scripts/conv-table: the table in the tree is the one that its record gives, and --check finds a row that is too slow.
# Arguments: scratch folder. Environment: CAPL_SOURCE_DIR.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

scratch=$1 record=bench/results/zen4-conv-choice.jsonl rows=engine/backend/cpu/conv_winograd_rows.h
rm -rf "$scratch"
mkdir -p "$scratch"/{scripts,bench/results,engine/backend/cpu}
cp "$CAPL_SOURCE_DIR/scripts/conv-table" "$scratch/scripts"
cp "$CAPL_SOURCE_DIR/$record" "$scratch/bench/results"
cd "$scratch"

fail() { echo "$*" >&2; cat out.txt >&2; exit 1; }

scripts/conv-table "$record" >out.txt || fail "scripts/conv-table"
cmp -s "$rows" "$CAPL_SOURCE_DIR/$rows" || fail "$rows is not what scripts/conv-table makes of $record"
scripts/conv-table --check "$record" >out.txt || fail "the table is more than 2 % slower than the faster algorithm"
grep -q '^1 threads, 108 rows at two sizes: the table is at most 1\.3 % slower' out.txt || fail "does not say the bound"
grep -q '^2 threads, 108 rows' out.txt || fail "does not know the other number of threads"
grep -q 'captcha_cnn, batch 64: .* of the best single one' out.txt || fail "does not sum networks"

# With four threads direct convolution is faster: the row says so, then it does not.
line='{"op": "conv2d", "threads": 4, "inputs": 64, "outputs": 64, "tile": 120, "fixed": 5, "small": 960, "small_ms": [0.1, 0.2], "large": 61360, "large_ms": [10.0, 12.0]}'
echo "$line" >>"$record"
scripts/conv-table --check "$record" >out.txt || fail "four threads"
grep -q '^4 threads, 1 rows' out.txt || fail "does not count four threads apart"
sed -i 's/"threads": 4\(.*\)"tile": 120/"threads": 4\1"tile": 60/' "$record"
if scripts/conv-table --check "$record" >out.txt; then fail "takes a row that is 20 % slower"; fi
grep -q 'conv2d 64 to 64, 61360 pixels: 20.0 % slower' out.txt || fail "does not name the slow row"
if scripts/conv-table --check no.jsonl >out.txt 2>&1; then fail "takes a record that is not there"; fi
grep -q 'no.jsonl has no lines' out.txt || fail "does not name the missing record"
