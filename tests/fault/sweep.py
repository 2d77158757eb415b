"""Makes every call of a kind fail, one after the other, in every command, and looks at what is left.

usage: sweep.py [--every=N] [--most=N] [--leaks] [--table] [COMMAND] [FAULT]...
  COMMAND   train, resume, predict, pack, generate, export or serve; all of them if none is named
  FAULT     a name of the list FAULTS, such as write or malloc
  --every=N   only every N-th call
  --most=N    at most about N calls of each kind in each command, evenly chosen
  --leaks     a build with AddressSanitizer: memory that is held at the end is a failure, too
  --table     prints docs/reliability.md's table at the end
A command runs once to count its calls, then once for each of them, in which that one fails. Whatever call it was: the
program ends by itself; with success it has written and printed what it does otherwise; else it says in a few lines
what failed and why. No temporary file is left, every file that is there is whole, and an earlier model still reads.
A resumed training that failed goes on, and ends with the weights of one that never failed.
Calls that may be repeated (interrupted ones, short ones) fail many times in one run, which has to succeed; liblmdb takes
what is short for a full disk, so that pack may end with a message.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import errno
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
HERE = os.path.dirname(os.path.abspath(__file__))
PRELOAD = os.environ["CAPL_FAULT_LIBRARY"]
TRAIN, RESUME = os.path.join(HERE, "train.lua"), os.path.join(HERE, "resume.lua")

# call of preload.c, the error, the word of the table, more settings; many: fails again and again in one run
Fault = collections.namedtuple("Fault", "call error more many", defaults=({}, False))
FAULTS = {
    "write": Fault("write", errno.ENOSPC),
    "write_eio": Fault("write", errno.EIO),
    "write_full": Fault("write", errno.ENOSPC, {"SINCE": 1}),
    "read": Fault("read", errno.EIO),
    "open": Fault("open", errno.EMFILE),
    "open_full": Fault("open", errno.ENOSPC),
    "fsync": Fault("fsync", errno.EIO),
    "rename": Fault("rename", errno.ENOSPC),
    "mkdir": Fault("mkdir", errno.ENOSPC),
    "malloc": Fault("malloc", errno.ENOMEM, {"SIZE": 65536}),
    "malloc_small": Fault("malloc", errno.ENOMEM, {"SIZE": 1}),
    "mmap": Fault("mmap", errno.ENOMEM),
    "mmap_full": Fault("mmap", errno.ENOMEM, {"SINCE": 1}),
    "thread": Fault("thread", errno.EAGAIN),
    "fork": Fault("fork", errno.EAGAIN),
    "socket": Fault("socket", errno.EMFILE),
    "send": Fault("send", errno.EIO),
    "recv": Fault("recv", errno.EIO),
    **{f"{call}_eintr": Fault(call, errno.EINTR, {"SINCE": 2}, True) for call in ("read", "write", "recv", "send", "poll")},
    **{f"{call}_short": Fault(call, errno.EINTR, {"SINCE": 1, "SHORT": 1}, True) for call in ("read", "write", "recv", "send")},
}
REASONS = {errno.EMFILE: "open files", errno.ENOMEM: "memory", errno.ENOSPC: "No space left on device", errno.EIO: "nput/output error",
           errno.EAGAIN: "temporarily unavailable", errno.EINTR: "Interrupted system call"}

# words of the command line, what it writes that has to be the same when it succeeds; what it prints has to be, too
Command = collections.namedtuple("Command", "words results printed", defaults=(True,))
COMMANDS = {
    "train": Command([TRAIN], ["runs/train/last.capl/weights.safetensors", "runs/train/files"], False),
    "resume": Command([RESUME, "--resume", "--steps=6"], ["runs/resume/last.capl/weights.safetensors"], False),
    "predict": Command(["predict", "given/model.capl", "given/images"], []),
    "pack": Command(["data", "pack", "given/images", "--out=packed"], ["packed/data.mdb"], False),
    "generate": Command(["generate", "--out=made", "--n=4"], ["made"], False),
    "export": Command(["export", "given/model.capl", "--format=onnx", "--out=made.onnx"], ["made.onnx"]),
    "serve": Command(["serve", "given/model.capl", "--port=0"], []),
}
GIVEN = ("given", "runs")  # what a command finds; the rest it made
ENV = dict(os.environ, OMP_NUM_THREADS="1", CAPL_THREADS="1", CAPL_PYTHON="no-python", ASAN_OPTIONS="detect_leaks=0")  # ONNX Runtime is no part of this

failures = []
Done = collections.namedtuple("Done", "status out err failed count")
LEAKS = "--leaks" in sys.argv


class Failed(Exception):
    """What one run did wrong."""


def check(condition, what, done):
    if not condition:
        raise Failed(f"FAILED: {what}\nexit {done.status}\n{done.out[-250:]}{done.err[-2500:]}")


# ---- running ------------------------------------------------------------------------------------


def environment(fault, at):
    """With the library; at = 0: nothing fails."""
    with open("count", "wb") as file:
        file.write(bytes(16))
    env = dict(ENV, LD_PRELOAD=PRELOAD, CAPL_FAULT_CALL=fault.call, CAPL_FAULT_AT=str(at), CAPL_FAULT_ERRNO=str(fault.error),
               CAPL_FAULT_COUNT=os.path.abspath("count"), **{f"CAPL_FAULT_{k}": str(v) for k, v in fault.more.items()})
    if LEAKS:
        env.update(CAPL_FAULT_LEAKS="1", ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=1:allocator_may_return_null=1:"
                   "intercept_tls_get_addr=0:detect_stack_use_after_return=0:exitcode=99",
                   LSAN_OPTIONS=f"print_suppressions=0:suppressions={os.path.join(HERE, 'leaks.txt')}")
    return env


def ask(child):
    """One request to a server that has started; nothing if it has not."""
    port = None
    for line in child.stdout:
        found = re.search(r"http://127.0.0.1:(\d+)/", line)
        if found:
            port = int(found.group(1))
            break
    if not port:
        return ""
    answer = ""
    try:
        with open("given/image.png", "rb") as image:
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            server.request("POST", "/predict", image.read())
            answer = server.getresponse().read().decode()
            server.close()
    except (OSError, http.client.HTTPException) as error:
        answer = type(error).__name__
    child.send_signal(signal.SIGTERM)
    return answer


def run(name, fault, at):
    words = [CAPL, *(["--trust"] if LEAKS else []), *COMMANDS[name].words]
    with subprocess.Popen(words, env=environment(fault, at), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace") as child:
        out = ask(child) if name == "serve" else ""
        try:
            rest, err = child.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            child.kill()
            rest, err = child.communicate()
            err += "\nit hangs"
    with open("count", "rb") as file:
        count, failed = struct.unpack("qq", file.read())
    os.remove("count")
    return Done(child.returncode, out if name == "serve" else rest, err, failed, count)


# ---- what is left -------------------------------------------------------------------------------


def files():
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(".") for name in names)


def whole(path):
    """Whether a file ends where its kind ends."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".png"):
        return data[-8:-4] == b"IEND"
    if path.endswith(".json"):
        json.loads(data)
    if path.endswith(".jsonl"):
        for line in data.splitlines():
            json.loads(line)
        return data[-1:] in (b"\n", b"")
    if ".tfevents." in path: # records: length, its checksum, the bytes, theirs; the first may not have fitted
        place = 0
        while place < len(data):
            place += int.from_bytes(data[place:place + 8], "little") + 16
        return place == len(data)
    if path.endswith(".csv"):
        return data[-1:] in (b"\n", b"")
    return len(data) > 0


def check_left(done, where):
    leftovers = [p for p, _, _ in os.walk(".") if ".tmp" in p] + [p for p in files() if ".tmp" in p]
    check(not leftovers, f"{where}: no temporary file is left: {leftovers}", done)
    for path in files():
        try:
            check(whole(path), f"{where}: {path} is whole", done)
        except ValueError as error:
            check(False, f"{where}: {path} is whole: {error}", done)


def check_message(done, where, fault):
    text = done.err + done.out if LEAKS else done.err
    lines = done.err.splitlines()
    check(0 < len(lines) <= 14, f"{where}: the message is short", done)
    for bad in ("bug in capl", "stack traceback", "AddressSanitizer", "runtime error", "PANIC"):
        check(bad not in text, f"{where}: it is a message", done)
    if fault.many:  # pack
        return
    check(REASONS[fault.error] in text, f"{where}: it gives the reason, {REASONS[fault.error]}", done)


def digest(paths):
    """Of files and of the files below folders, by name."""
    found = hashlib.sha256()
    for path in paths:
        for name in sorted(os.path.join(f, n) for f, _, names in os.walk(path) for n in names) or [path]:
            found.update(name.encode())
            with open(name, "rb") as file:
                found.update(file.read())
    return found.hexdigest()


def curve(path):
    """What each step and evaluation gave, without what the clock has a part in; the steps of the table. An evaluation
    after which the run failed is made again."""
    keys = ("step", "images", "loss", "lr", "val_loss", "val_exact")
    with open(f"{path}/metrics.jsonl", encoding="utf-8") as file:
        lines = [tuple(line.get(key) for key in keys) for line in map(json.loads, file) if "loss" in line or "val_loss" in line]
    with open(f"{path}/metrics.csv", encoding="utf-8") as file:
        table = file.read().splitlines()
    return sorted(set(map(str, lines))), sorted({row.split(",")[0] for row in table})


def result(name, done):
    told = done.out if COMMANDS[name].printed else curve(f"runs/{name}") if name in ("train", "resume") else ""
    return digest(COMMANDS[name].results), told


def check_same(found, expected, what, done):
    check(found[0] == expected[0], f"{what}: the files", done)
    check(found[1] == expected[1], f"{what}: {found[1]}\n instead of {expected[1]}", done)


def verify(path, where):
    done = subprocess.run([CAPL, "verify", path], capture_output=True, text=True, timeout=60)
    check(done.returncode == 0, f"{where}: {path} still reads", Done(done.returncode, done.stdout, done.stderr, 0, 0))


def goes_on(where, expected):
    """The failed training is resumed and ends with the expected weights."""
    done = run("resume", Fault("none", 0), 0)
    finished = done.status == 1 and "is finished" in done.err
    check(done.status == 0 or finished, f"{where}: the run can be resumed", done)
    check_same(result("resume", done), expected, f"{where}: with the result of the run that never failed", done)


# ---- sweeping -----------------------------------------------------------------------------------


def tidy():
    """What the command finds, as it was, and nothing else."""
    for name in os.listdir("."):
        if name != "given":
            shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)
    shutil.copytree("given/runs", "runs")


def lost_client(name, fault, done):
    """The one client of a server has lost its connection or got an error, and the server goes on."""
    told = '"error"' in done.out and REASONS[fault.error] in done.out
    return name == "serve" and not fault.many and (told or done.out in ("RemoteDisconnected", "TimeoutError"))


def check_one(name, fault, at, where, expected):
    tidy()
    done = run(name, fault, at)
    check(done.status in (0, 1), f"{where}: the program ends by itself", done)
    check_left(done, where)
    if done.status == 0 and not lost_client(name, fault, done):
        check_same(result(name, done), expected, f"{where}: success means the usual result", done)
    if done.status == 1:
        check(done.failed > 0 and (not fault.many or name == "pack"), f"{where}: it succeeds", done)
        check_message(done, where, fault)
    if done.status == 1 and os.path.exists("runs/train/best.capl"):
        verify("runs/train/best.capl", where)
    if done.status == 1 and name == "resume":
        goes_on(where, expected)
    return done


def sweep(name, kind, every, most):
    """Counts the calls, then lets them fail -> calls, made to fail, ended with a message."""
    fault = FAULTS[kind]
    tidy()
    done = run(name, fault, 0)
    check(done.status == 0, f"{name}: succeeds when nothing fails", done)
    check_left(done, f"{name}, no fault")
    expected, n = result(name, done), done.count
    step = max(every, -(-n // most) if most else 1)
    numbers = range(1, min(n, 2) + 1) if fault.many else range(1, n + 1, step)
    ended = 0
    for at in numbers:
        try:
            ended += check_one(name, fault, at, f"{name}, {kind} {at} of {n}", expected).status
        except Failed as wrong:
            failures.append(str(wrong))
            print(wrong, flush=True)
    verify("given/model.capl", f"{name}, {kind}")
    return n, n if fault.many else len(numbers), ended


def prepare():
    """A model, images, a run that can go on."""
    os.mkdir("given")
    for words in ([TRAIN], [RESUME, "--steps=4", "--every=2"]):
        subprocess.run([CAPL, *words], check=True, capture_output=True, env=ENV)
    os.rename("runs/train/best.capl", "given/model.capl")
    os.rename("runs/train/files", "given/images")
    shutil.copy(os.path.join("given/images", sorted(os.listdir("given/images"))[0]), "given/image.png")
    shutil.rmtree("runs/train")
    os.rename("runs", "given/runs")


def option(name, otherwise):
    for word in sys.argv[1:]:
        if word.startswith(f"--{name}="):
            return int(word.split("=")[1])
    return otherwise


def print_table(rows):
    print("| fault | " + " | ".join(COMMANDS) + " |\n|---|" + "---|" * len(COMMANDS))
    for kind in FAULTS:
        cells = ["{} of {}: {}".format(*rows[kind, name]) if (kind, name) in rows else "" for name in COMMANDS]
        print(f"| `{kind}` | " + " | ".join(cells) + " |")


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    unknown = [word for word in words if word not in COMMANDS and word not in FAULTS]
    if unknown:
        sys.exit(f"no command and no fault: {unknown[0]}; there are: {', '.join([*COMMANDS, *FAULTS])}")
    rows = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.chdir(folder)
        prepare()
        for name in [word for word in words if word in COMMANDS] or COMMANDS:
            for kind in [word for word in words if word in FAULTS] or FAULTS:
                n, failed, ended = sweep(name, kind, option("every", 1), option("most", 0))
                rows[kind, name] = (failed, n, ended)
                print(f"{name}, {kind}: {n} calls, {failed} made to fail, {ended} of them ended the command", flush=True)
    if "--table" in sys.argv:
        print_table(rows)
    sys.exit(f"{len(failures)} FAILED" if failures else 0)


main()
