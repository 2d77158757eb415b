#!/usr/bin/env bash
# The bundle: complete, small enough, and its gpu-check says what it should with and without a GPU (shim: FOLDER).
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

shim=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; [[ ! -s $work/out.txt ]] || tail -n 30 "$work/out.txt" >&2; exit 1; }
ok() { echo "ok $*"; }

# Packed a little worse, three times as fast.
XZ_OPT=-2 scripts/bundle --out="$work/capl-bundle.tar.xz" >"$work/out.txt" 2>&1 || fail 'scripts/bundle'
tar -C "$work" -xf "$work/capl-bundle.tar.xz"
bundle=$work/capl-bundle
ok "$(tail -n 1 "$work/out.txt" | sed 's/.*(/(/')"

# Every library is in it, but glibc's and NVIDIA's.
for file in "$bundle"/bin/* "$bundle"/lib/*.so* "$bundle"/lib/capl/*.so "$bundle"/lib/deps/*; do
  missing=$(LD_LIBRARY_PATH=$bundle/lib:$bundle/lib/deps ldd "$file" 2>/dev/null | awk '/=> / { print $1, $3 }' |
    grep -Ev "^(libc|libm|libdl|librt|libpthread|libresolv)\\.so|^(libcuda|libcudnn|libcublas|libnv|libnccl)| $bundle/" || true)
  [[ -z $missing ]] || fail "${file##*/} needs what the bundle lacks: $missing"
done
ok 'complete'

bare() { (cd / && env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@") >"$work/out.txt" 2>&1; }
bare "$bundle/capl" -e 'print(capl.ones(2, 2):sum():item())' || fail 'capl'
grep -qx 4 "$work/out.txt" || fail 'capl computes'
bare "$bundle/capl" check "$bundle/recipes/captcha.lua" || fail 'capl check of a recipe'
bare "$bundle/capl" list || fail 'capl list'
grep -q '^ *captcha ' "$work/out.txt" || fail 'capl list names the recipes of the bundle'
ok 'runs without this environment'

if bare "$bundle/scripts/gpu-check" --out="$work/none" --quick info; then
  [[ -e /dev/nvidiactl ]] || fail 'gpu-check passes without a GPU'
else
  grep -q 'device cuda is not available: ' "$work/out.txt" || fail 'gpu-check says why there is no GPU'
fi
grep -q '"status": "failed"' "$work/none/report.json" || fail 'gpu-check writes a report'
ok 'says why there is no GPU'

bare CAPL_BACKEND_PATH="$shim" "$bundle/scripts/gpu-check" --out="$work/some" --quick info sandbox graph || fail 'gpu-check with a GPU'
grep -q '^all passed' "$work/out.txt" || fail 'gpu-check passes'
python3 -m json.tool "$work/some/report.json" >/dev/null || fail 'report.json is no JSON'
ok 'gpu-check passes'

# A machine with a shell and glibc alone, and with the folders of the system that a driver needs.
if ! unshare -rm true 2>/dev/null; then
  echo 'NOT CHECKED: the bundle in a bare chroot: this machine has no namespaces for users'
  exit 0
fi
root=$work/root
mkdir -p "$root"/{bin,usr,proc,dev,sys,tmp,home,etc}
ln -s /bin "$root/usr/bin"
for program in bash sh env cat dirname mkdir rm realpath readlink sed awk grep head tr sort uname tar gzip; do
  file=$(readlink -f "$(command -v $program)")
  cp "$file" "$root/bin/$program"
  ldd "$file" | grep -o '/[^ ]*' | while read -r library; do cp -L --parents "$library" "$root/"; done
done
ldd "$bundle/bin/capl" | grep -oE '/[^ ]*/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/ ]*)\.so[^ ]*' |
  while read -r library; do cp -L --parents "$library" "$root/"; done
cp -r "$bundle" "$root/capl-bundle"
cp -rL "$shim" "$root/shim"
# shellcheck disable=SC2016 # for the shell inside
if ! unshare -rm bash -c 'mount --rbind /dev "$1/dev" && mount --rbind /proc "$1/proc" && \
  exec chroot "$1" /bin/env -i PATH=/bin HOME=/home CAPL_BACKEND_PATH=/shim /bin/bash -c "cd /tmp && /capl-bundle/scripts/gpu-check --out=/tmp/seen --quick info graph"' - "$root" \
  >"$work/out.txt" 2>&1; then fail 'gpu-check in a bare chroot'; fi
grep -q '^all passed' "$work/out.txt" || fail 'gpu-check passes in a bare chroot'
ok 'passes in a bare chroot'
