"""capl RECIPE --ranks=N: how ranks are started, what they print, and how they end: by themselves, by Ctrl-C, by the clock, by
a crash, and with their supervisor.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import select
import signal
import time

from ranks import CAPL, capl, check, finish, in_empty_folder, mpirun, need_mpi, recipe, start, write

HELLO = """--- capl: 1
local world = capl.distributed()
print("rank " .. world.rank .. " of " .. world.size)
"""
# Every rank says that it is there, and computes until somebody ends it.
BUSY = """--- capl: 1
local world = capl.distributed()
world:barrier()
print("begins " .. world.rank)
while true do end
"""
CRASH = """--- capl: 1
local world = capl.distributed()
world:barrier()
if world.rank == 1 then error("rank one is unhappy") end
world:barrier()
"""
BANNERS = re.compile(r"mpirun|prterun|Primary job|-----|orte|PMIX|MPI_ABORT")


def processes(name):
    """Processes whose command names the file, this one not."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if any(word.endswith(name) for word in words):
            found.append((int(pid), words))
    return found


def workers(path):
    """Ranks' workers: children of capl that are capl themselves, without mpirun and the supervisors, by age."""
    mine = processes(path)
    ours = {pid for pid, words in mine if not re.search("mpirun|prterun", words[0])}
    parents = {}
    for pid in ours:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            parents[pid] = int(file.read().rsplit(")", 1)[1].split()[1])
    return sorted(pid for pid in ours if parents[pid] in ours)


def gone(path, within=5):
    end = time.monotonic() + within
    while time.monotonic() < end:
        if not processes(path):
            return True
        time.sleep(0.05)
    return False


def read_lines(process, n, within=20):
    """The first n lines of its output, or as many as come in time."""
    fd, text, end = process.stdout.fileno(), b"", time.monotonic() + within
    while text.count(b"\n") < n and select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
        piece = os.read(fd, 4096)
        if not piece:
            break
        text += piece
    return text.decode().splitlines(keepends=True)


def busy(name):
    """Starts two busy ranks and waits until both compute."""
    path = os.path.abspath(write(name, BUSY))
    process = start(CAPL, path, "--ranks=2")
    lines = read_lines(process, 2)
    check(sorted(lines) == ["[rank 1] begins 1\n", "begins 0\n"], f"two ranks compute ({name})", lines)
    return path, process


def prints():
    write("hello.lua", HELLO)
    one_core = {"HWLOC_SYNTHETIC": "core:1 pu:2", "HWLOC_THISSYSTEM": "1"}  # as mpirun sees this machine
    for words, env in ((["hello.lua", "--ranks=2"], {}), (["--ranks=2", "hello.lua"], one_core)):
        status, out, err = capl(*words, env=env)
        lines = {line for line in out.splitlines() if "rank " in line and not line.startswith("report")}
        check((status, lines) == (0, {"rank 0 of 2", "[rank 1] rank 1 of 2"}), f"two ranks: {' '.join(words)}", (status, out, err))
        check(not BANNERS.search(out + err), "mpirun says nothing", out + err)
    status, out, err = mpirun(2, CAPL, "hello.lua")
    check(status == 0 and "\n[rank 1] rank 1 of 2\n" in "\n" + out, "lines by rank under the user's own mpirun", (status, out, err))
    status, out, err = mpirun(2, CAPL, "hello.lua", "--ranks=3")
    check(status == 1 and "--ranks=3 contradicts mpirun, which has started 2 processes" in err, "two numbers of ranks", err)


def errors():
    write("crash.lua", CRASH)
    status, out, err = capl("crash.lua", "--ranks=2")
    check(status == 1 and "crash.lua:4: rank one is unhappy" in err, "a rank's error is the job's", (status, out, err))
    check(not BANNERS.search(out + err), "mpirun adds nothing to it", err)
    status, out, err = capl("crash.lua", "--ranks=2", env={"PATH": "/nonexistent"})
    check((status, err) == (1, "capl: --ranks=2 needs Open MPI: sudo apt install openmpi-bin libopenmpi-dev, then scripts/build\n"),
          "mpirun is missing", (status, err))
    torch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    status, out, err = capl("crash.lua", env=torch)
    check(status == 1 and "--ranks=2" in err and "mpirun" in err, "CPU ranks under torchrun's variables", (status, err))


def without_gpu():
    begun = time.monotonic()
    status, out, err = capl(recipe("a100_ddp.lua"), env={"CAPL_DEVICE": ""})
    took = time.monotonic() - begun
    if "wants a GPU" not in err:
        return print("ok (this machine has a GPU)")
    check(status == 1 and "no NVIDIA driver" in err and "--ranks=2" in err, "why there are no GPU ranks, and what to do", err)
    check(took < 5, "it is said at once", f"{took:.2f} s") # 0.5 s on a quiet machine
    return None


def stops():
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        path, process = busy(f"stop{int(number)}.lua")
        process.send_signal(number)
        ended = finish(process, 20)
        check(ended[0] == status and not BANNERS.search(ended[2]), f"signal {int(number)} ends all ranks", ended)
        check("[rank 1]" not in ended[2], "one of them says so", ended)
        check(gone(path), "nobody is left")
    status, out, err = capl("--minutes=0.02", "stop2.lua", "--ranks=2")
    check(status == 124 and err.count("stopped after 0.02 minutes") == 1, "the time limit is told once", (status, err))


def listeners(pids):
    """Addresses, in the kernel's hexadecimal, at which processes listen for TCP."""
    sockets, found = {}, set()
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        sockets.update({f"socket:[{row[9]}]": row[1] for row in rows if row[3] == "0A"})
    for pid in pids:
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        found |= {sockets[link] for link in links if link in sockets}
    return found


def is_loopback(address):
    return address.startswith("0100007F:") or address.startswith("0" * 24 + "01000000:")


def stays_on_host():
    """Also while the ranks meet, which is the first second."""
    path, seen = os.path.abspath(write("stays.lua", BUSY)), set()
    process = start(CAPL, path, "--ranks=2")
    until = time.monotonic() + 20
    while time.monotonic() < until and not select.select([process.stdout], [], [], 0)[0]:
        seen |= listeners(pid for pid, _ in processes(path))
        time.sleep(0.02)
    seen |= listeners(pid for pid, _ in processes(path))
    check(seen and all(map(is_loopback, seen)), "ranks of one host, and mpirun, listen on loopback alone", seen)
    process.send_signal(signal.SIGINT)
    finish(process, 20)


def dies():
    path, process = busy("dies.lua")
    pids = workers(path)
    check(len(pids) == 2, "two workers", processes(path))
    os.kill(pids[1], signal.SIGKILL)
    begun = time.monotonic()
    status, out, err = finish(process, 20)
    took = time.monotonic() - begun
    check(status == 137 and took < 5, "the end of one ends all in under 5 s", (status, f"{took:.1f} s", err))
    told = re.findall(r"rank [01] \(process (\d+)\) was ended by signal 9 \(Killed\)", err)
    check(told == [str(pids[1])], "who was killed is told once", err)
    check(not BANNERS.search(err), "mpirun does not tell it again", err)
    check(gone(path), "nobody is left")
    path, process = busy("orphans.lua")
    process.kill()
    check(gone(path, 5), "no rank outlives a supervisor that was killed", processes(path))
    finish(process, 10)


def main():
    without_gpu()
    need_mpi()
    prints()
    errors()
    stops()
    stays_on_host()
    dies()


in_empty_folder(main)
