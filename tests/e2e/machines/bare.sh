#!/usr/bin/env bash
# A Debian release with nothing on it, in a chroot: quickstart, a prediction, packages and unit tests, as root, sudoer and plain user.
# Arguments: release (bookworm, trixie). Environment: CAPL_SOURCE_DIR; CAPL_DEBIAN_MIRROR, else debootstrap's own.
# Needs root, debootstrap and the mirror. The base system is kept in $XDG_CACHE_HOME/capl, so that a second run is quick.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail

release=$1
work=$(mktemp -d)
root=$work/root

skip() { echo "skipped: $*" >&2; exit 77; }
fail() { echo "FAILED: $*" >&2; [[ ! -s $work/out.txt ]] || tail -n 40 "$work/out.txt" >&2; exit 1; }
ok() { echo "ok $*"; }
clean() {
  umount -R -l "$work"/*/dev "$work"/*/proc 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap clean EXIT

# ---- the machine --------------------------------------------------------------------------------------------------

[[ $(id -u) -eq 0 ]] || skip "a chroot of Debian $release can only be made by root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"

# In a mount namespace of its own: whatever is mounted below is gone with this process.
if [[ ${CAPL_UNSHARED:-} != "$$" ]]; then
  unshare -m true 2>/dev/null || skip "this root may not mount (a container without CAP_SYS_ADMIN)"
  rm -rf "$work"
  exec env -u CAPL_UNSHARED unshare -m bash -c 'CAPL_UNSHARED=$$ exec bash "$@"' bash "$0" "$@"
fi

cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/capl
base=$cache/debian-$release-$(dpkg --print-architecture).tar

make_base() {
  mkdir -p "$cache"
  if ! debootstrap --variant=minbase "$release" "$root" ${CAPL_DEBIAN_MIRROR:+"$CAPL_DEBIAN_MIRROR"} >"$work/out.txt" 2>&1; then
    skip "debootstrap of $release failed (no mirror?): $(grep -v '^I: ' "$work/out.txt" | tail -n 1)"
  fi
  chroot "$root" apt-get clean
  tar -C "$root" --one-file-system -cf "$base.$$" . && mv "$base.$$" "$base"
}

# What a small container has: a few devices, 64 MB of shared memory, no sysfs.
mount_system() {
  mount -t proc proc "$root/proc"
  mount -t tmpfs -o mode=755 tmpfs "$root/dev"
  mkdir "$root/dev/shm" "$root/dev/pts"
  local device
  for device in null zero full random urandom tty; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
  done
  ln -s /proc/self/fd "$root/dev/fd"
  mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
}

new_machine() { # FOLDER
  root=$1
  mkdir "$root"
  if [[ -f $base ]]; then tar -C "$root" -xpf "$base"; else make_base; fi
  # Nothing here is to outlive a power cut: dpkg need not wait for the disk after each file, most of an install's time.
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
  mount_system
}
new_machine "$root"

proxies=()
for name in http_proxy https_proxy no_proxy; do [[ -z ${!name:-} ]] || proxies+=("$name=${!name}"); done

# Nothing of this machine's environment: no HOME, no LANG, no TERM.
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${proxies[@]}" "$@" </dev/null >"$work/out.txt" 2>&1; }
as_user() { inside setpriv --reuid=1000 --regid=1000 --clear-groups "$@"; }
said() { grep -q -- "$1" "$work/out.txt" || fail "$2"; }

# The tree as a clone has it: what git knows, without what was built.
clone() { # FOLDER
  mkdir -p "$root$1"
  (cd "$CAPL_SOURCE_DIR" && { git ls-files -z 2>/dev/null || find . -path './build*' -prune -o -type f -print0; } |
    tar --null -T - --ignore-failed-read -cf - 2>/dev/null) | tar -C "$root$1" -xf -
}

clone /srv/admin/capl
clone /srv/user/capl
chown -R 1000:1000 "$root/srv/user"
inside useradd -M -u 1000 -d /srv/user user || fail "useradd"
chmod 755 "$root/srv/admin"
small=(--test=200 --files=50)

# ---- what a newcomer does -----------------------------------------------------------------------------------------

if as_user /srv/user/capl/scripts/quickstart; then fail "a plain user gets on without a compiler"; fi
said 'neither root nor has sudo' "quickstart does not say that it cannot install"
said '^  apt-get update && apt-get install .*libdnnl-dev' "quickstart does not print the apt line"
ok "a plain user is given the apt line"

# Lists that are there are asked for the size; those of a container image are not there.
[[ $release == bookworm ]] || rm -rf "$root"/var/lib/apt/lists/*
inside /srv/admin/capl/scripts/quickstart --dry-run || fail "quickstart --dry-run"
said ' to download' "the plan does not say how much is downloaded"
said 'max_time=5m' "the plan does not say how long it trains"
plan=$(sed -n 's/^  *with what they need //p' "$work/out.txt")
inside sh -c '! command -v gcc' || fail "--dry-run installs"
ok "the plan: $plan"

start=$SECONDS
if [[ $release == bookworm ]]; then
  inside sh -c 'umask 077 && cd / && exec /srv/admin/capl/scripts/quickstart "$@"' sh --max_time=8s "${small[@]}" ||
    fail "quickstart as root"
  checkout=/srv/admin/capl run=inside
else
  { inside apt-get -q update && inside apt-get -q -y install --no-install-recommends sudo; } || fail "sudo"
  echo 'user ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/user"
  as_user env HOME=/srv/user /srv/user/capl/scripts/quickstart --max_time=8s "${small[@]}" || fail "quickstart with sudo"
  checkout=/srv/user/capl run=as_user
fi
said '^  downloaded 100 %' "apt's progress"
said '^final exact=' "quickstart does not reach a result"
ok "quickstart in $((SECONDS - start)) s: $(grep '^final ' "$work/out.txt")"

model=$checkout/runs/captcha/best.capl
$run "$checkout/build/capl" generate --out=/tmp/images --n=3 --charset=A --length=4 || fail "generate"
images=("$root"/tmp/images/*.png)
image=${images[0]#"$root"}
$run "$checkout/build/capl" predict "$model" "$image" || fail "predict"
said "^$image	[0-9A-Z]\{4\}	" "predict does not read the image"
ok "predict: $(cat "$work/out.txt")"

# With the packages there, a plain user without sudo needs nobody. A home that cannot be written is no hindrance. What root
# has built is the user's now, but for the program and one part of it: all of it would take a minute more.
if [[ $release == bookworm ]]; then
  rm -rf "$root$checkout"/{runs,build/capl,build/CMakeCache.txt}
  chown -R 1000:1000 "$root$checkout"
  touch "$root$checkout/engine/program/main.c"
  chown 0:0 "$root/srv/user"
  as_user env HOME=/srv/user "$checkout/scripts/quickstart" --max_time=2s "${small[@]}" || fail "quickstart as a plain user"
  said 'nothing, all packages are here' "quickstart wants packages that are there"
  ok "a plain user builds and trains"
fi

# A release that this machine itself runs has had its tests there.
if ! grep -q "^VERSION_CODENAME=$release\$" /etc/os-release; then
  start=$SECONDS
  inside CAPL_CUDA_TESTS=OFF "$checkout/scripts/test" unit || fail "scripts/test unit"
  said '^all passed' "scripts/test unit"
  ok "scripts/test unit in $((SECONDS - start)) s"
fi

# ---- packages, by the lines of Dockerfile -------------------------------------------------------------------------

start=$SECONDS
mapfile -t lines < <(sed -n 's/^RUN //p' "$CAPL_SOURCE_DIR/Dockerfile")
[[ ${#lines[@]} == 2 ]] || fail "Dockerfile has ${#lines[@]} lines that begin with RUN"
chown -R 0:0 "$root$checkout" # root goes on with what the user has built
# The tree is built already, but for the folders that it is installed to.
line=${lines[0]/\/src/$checkout}
[[ $line != "${lines[0]}" ]] || fail "Dockerfile does not build in /src: $line"
inside env CAPL_BUILD_DIR=build sh -c "$line" || fail "Dockerfile: $line"
made=("$root"/packages/*.deb)
names=$(basename -a "${made[@]}" | sed 's/_.*//' | grep -v '^capl-mpi$' | sort | paste -sd' ') # capl-mpi: after the unit tests Open MPI is there
[[ $names == 'capl libcapl-dev libcapl0' ]] || fail "packages made: ${made[*]##*/}"
if command -v lintian >/dev/null && grep -q "^VERSION_CODENAME=$release\$" /etc/os-release; then
  lintian --allow-root --fail-on error "${made[@]}" >"$work/out.txt" 2>&1 || fail "lintian"
else
  echo "skipped: lintian of $release is not here, so nothing has looked at the packages"
fi
# Where there is a compiler and LuaJIT: the reader in C and the one in Lua.
inside sh -c 'apt-get install -y --no-install-recommends /packages/*.deb' || fail "installing libcapl-dev"
inside sh -c "cd /usr/share/doc/capl && cc docs/examples/predict.c \$(pkg-config --cflags --libs capl) -o /tmp/predict && /tmp/predict $model $image" ||
  fail "C with libcapl-dev"
said "^$image	[0-9A-Z]\{4\}	" "C with libcapl-dev does not read the image"
inside luajit -e "print(require('capl').io.open_model('$model').outputs[1].kind.name)" || fail "LuaJIT with the package capl"
said '^text$' "LuaJIT with the package capl does not open the model"

first=$root
new_machine "$work/packages"
mkdir "$root/data"
cp -r "$first/packages" "$root/"
cp -r "$first$model" "$root/data/model.capl"
cp "$first$image" "$root/data/"
inside sh -c "rm -f /packages/libcapl-dev_* /packages/capl-mpi_*; ${lines[1]}" || fail "Dockerfile: ${lines[1]}"
as_user capl predict /data/model.capl "/data/${image##*/}" || fail "predict of the package"
said "^/data/${image##*/}	[0-9A-Z]\{4\}	" "the package does not read the image"
as_user sh -c 'cd /tmp && capl captcha --max_time=2s --test=200 --files=50' || fail "the package does not train"
said '^final exact=' "the package reaches no result"
inside apt-get purge -y capl libcapl0 || fail "purge"
left=$(find "$root" -xdev \( -path "$root/tmp" -o -path "$root/var/log" \) -prune -o -name '*capl*' -print)
[[ -z ${left//"$root/data/model.capl"/} ]] || fail "purge leaves $left"
root=$first
ok "packages made, installed, used and purged in $((SECONDS - start)) s"
