#!/usr/bin/env bash
# scripts/bench data: ratios of what it is given, a peer that is not installed, the record as JSON; with fakes of both sides.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; tail -n 40 "$work"/*.txt >&2; exit 1; }

mkdir "$work/bin" "$work/build"
stand_in() { cat >"$1"; chmod +x "$1"; }
printf '#!/bin/sh\n' | stand_in "$work/bin/cmake" # nothing is built
stand_in "$work/build/data_bench" <<'END'
#!/bin/sh
[ "$1" = write ] && exit 0
echo '{"step_ms": 2.0, "core_ms": 3.0, "images": 32, "memcpy_ms": 0.5, "memcpy_core_ms": 9.0, "peak_rss_bytes": 1000000}'
END
stand_in "$work/python" <<'END'
#!/bin/sh
[ "$2" != generate ] || { echo 'captcha is not installed' >&2; exit 3; }
echo '{"step_ms": 90.0, "images": 32, "peak_rss_bytes": 1000000}'
END

PATH=$work/bin:$PATH PYTHON=$work/python CAPL_BUILD_DIR=$work/build scripts/bench data --rounds=2 --threads=2 --json \
  >"$work/record.txt" 2>"$work/told.txt" || fail "scripts/bench data"
says() { grep -qE "$1" "$work/told.txt" || fail "it does not say: $1"; }
says '^generation, avx512 / lepture, per core +- +>= 150; peer not installed$'
says '^left out: generate-captcha: peer not installed: captcha is not installed$'
says '^time in memcpys, plain, avx512 +4\.000 +<= 2$'
says '^augmentation, noise, avx512 / Pillow, per core +30\.000 +>= 30$'
says "^PNG folder / PyTorch's DataLoader +45\.000 +>= 1\.8$"
says '^60x160 gray, augmented: 16000 images/s with 2 threads'
python3 - "$work/record.txt" <<'END' || fail "the record"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    record = json.load(file)
ratios = {one["name"]: one["value"] for one in record["ratios"]}
assert ratios["generation, avx2 / lepture, per core"] is None, ratios
assert ratios["time in memcpys, mask, avx512"] == 4, ratios
series = {one["name"]: one for one in record["series"]}
assert series["data/small"]["images"] == 32 and series["data/small"]["rounds_ms"] == [2, 2], series
END
echo "ok scripts/bench data"
