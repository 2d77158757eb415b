"""The program in a container's narrow conditions: hardly an environment, a home that is not there, a strict umask, forbidden
system calls, a quota of processor time, little memory.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import platform
import resource
import struct
import subprocess
import tempfile

from program import CAPL, check, in_empty_folder, recipe

SMALL = ["--samples=96", "--batch=16", "--val=20", "--test=20", "--files=4", "--warmup=2"]
SANITIZED = {key: os.environ[key] for key in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if key in os.environ}


def run(*words, env=None, before=None):
    """Runs the program with nothing but env -> (exit status, output, error output)."""
    done = subprocess.run([CAPL, *words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL, preexec_fn=before,
                          env={**SANITIZED, **(env or {})}, check=False)
    return done.returncode, done.stdout.decode("utf-8", "strict"), done.stderr.decode("utf-8", "strict")


def trains(what, **how):
    status, out, err = run(recipe("captcha.lua"), *SMALL, **how)
    check(status == 0 and "final exact=" in out, "it trains " + what, out + err)
    return out


def environment():
    plain = trains("without any environment")
    check("\x1b" not in plain and "\r" not in plain, "and prints plain lines", plain)
    for what, env in {
        "with a home that is not there": {"HOME": "/nonexistent/home"},
        "in the C locale": {"LC_ALL": "C", "TERM": "dumb"},
        "in a locale that does not exist": {"LC_ALL": "xx_YY.UTF-8"},
    }.items():
        status, out, err = run("-e", "print(1.5)", env=env)
        check(status == 0 and out == "1.5\n" and err == "", "it runs " + what, out + err)
    for what, words in {"the prompt": [], "info": ["info"], "help": ["--help"]}.items():
        status, out, err = run(*words)
        check(status == 0 and err == "", what + " without any environment", out + err)


def strict_umask():
    trains("under umask 077", before=lambda: os.umask(0o077))
    newest = max((os.path.join("runs", name) for name in os.listdir("runs")), key=os.path.getmtime)
    mode = os.stat(newest).st_mode & 0o777
    check(mode == 0o700, "and what it writes is its owner's alone", oct(mode))


# ---- forbidden system calls --------------------------------------------------------------------------------------

# What Docker's default profile and stricter ones refuse, by its number on x86-64.
FORBIDDEN = {
    "sched_setaffinity": 203, "mbind": 237, "set_mempolicy": 238, "perf_event_open": 298, "userfaultfd": 323,
    "io_uring_setup": 425, "openat2": 437, "landlock_create_ruleset": 444, "landlock_restrict_self": 446,
}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, EPERM = 38, 22, 2, 1


def forbid():
    """A seccomp filter: these calls fail with EPERM, all others go through."""
    load, jump_equal, give_back = 0x20, 0x15, 0x06
    code = [struct.pack("HBBI", load, 0, 0, 0)]
    for number in FORBIDDEN.values():
        code.append(struct.pack("HBBI", jump_equal, 0, 1, number))
        code.append(struct.pack("HBBI", give_back, 0, 0, 0x00050000 | EPERM))
    code.append(struct.pack("HBBI", give_back, 0, 0, 0x7FFF0000))
    program = b"".join(code)
    buffer = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0) != 0:
        os._exit(77)


def forbidden_calls():
    if platform.machine() != "x86_64":
        print("skipped: forbidden system calls are tested on x86-64 only")
        return
    probe = subprocess.run(["python3", "-c", "import os; os.sched_setaffinity(0, {0})"], preexec_fn=forbid, check=False,
                           capture_output=True)
    if probe.returncode == 77:
        print("skipped: this kernel takes no seccomp filter")
        return
    check(b"PermissionError" in probe.stderr, "the filter forbids", probe.stderr.decode())
    trains("where system calls are forbidden", before=forbid)


# ---- quotas ------------------------------------------------------------------------------------------------------


def group_with_quota():
    """Makes a cgroup that is granted one processor -> (its folder, its list of processes), or None where that cannot be."""
    for top, files, tasks in (
        ("/sys/fs/cgroup", {"cpu.max": "100000 100000"}, "cgroup.procs"),
        ("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}, "tasks"),
    ):
        folder = f"{top}/capl-test-{os.getpid()}"
        try:
            os.mkdir(folder)
            for name, text in files.items():
                with open(f"{folder}/{name}", "r+", encoding="ascii") as file:  # a cgroup has it from the start
                    file.write(text)
            return folder, f"{folder}/{tasks}"
        except OSError:
            if os.path.isdir(folder):
                os.rmdir(folder)
    return None


def processors():
    if len(os.sched_getaffinity(0)) < 2:
        print("skipped: one processor is all there is here")
        return
    first = min(os.sched_getaffinity(0))
    _, out, _ = run("info", before=lambda: os.sched_setaffinity(0, {first}))
    check("processors 1\n" in out, "one allowed processor is one thread", out)
    made = group_with_quota()
    if not made:
        print("skipped: no cgroup can be made here (needs root and a writable /sys/fs/cgroup)")
        return
    folder, tasks = made

    def enter():
        with open(tasks, "w", encoding="ascii") as file:
            file.write(str(os.getpid()))

    try:
        _, out, _ = run("info", before=enter)
        check("processors 1\n" in out and " 1 thread," in out, "a quota of one processor is one thread", out)
    finally:
        os.rmdir(folder)


def memory():
    if "asan" in os.path.dirname(CAPL):
        return  # its shadow needs terabytes of addresses
    limit = 700 << 20

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    status, out, err = run("-e", "local t = {} for i = 1, 100 do t[i] = capl.ones(1024, 1024, 16) end", before=little)
    check(status == 1 and "out of memory: asked for" in err, "too little memory is an error, no crash", out + err)
    check(len(err.splitlines()) < 25, "of one screen", err)


def main():
    environment()
    strict_umask()
    forbidden_calls()
    processors()
    memory()


in_empty_folder(main)
