"""Ctrl-C at a terminal: stops compiled loops, loops that catch every error, and training; exit status 130.

Each case starts the program under a pseudo terminal, waits for its sign of life, and presses Ctrl-C.
SPDX-License-Identifier: Apache-2.0
"""
import functools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

import pexpect

CAPL = os.environ["CAPL_BIN"]
HEADER = "--- capl: 1\n"

LOOPS = {
    "empty loop": "while true do end",
    "arithmetic": "local s = 0 for i = 1, 1e18 do s = s + i % 7 end",
    "every error caught": "local function f() local s = 0 while true do s = s + 1 end end while true do pcall(f) end",
    "coroutine": "local f = coroutine.wrap(function() while true do end end) f()",
    "tail calls": "local function f(n) return f(n + 1) end f(1)",
    "tensors": "local x = capl.ones(64, 64) while true do x = x * 1 end",
}


def check(condition, what, seen=""):
    if not condition:
        sys.exit(f"FAILED: {what}\n{seen}")
    print("ok", what)


def status_of(child):
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def loops(folder):
    for name, loop in LOOPS.items():
        path = os.path.join(folder, "loop.lua")
        with open(path, "w", encoding="utf-8") as file:
            file.write(HEADER + 'capl.ones(1):sum():item() print("ready")\n' + loop + "\n")
        child = pexpect.spawn(CAPL, [path], timeout=20, encoding="utf-8")
        child.expect("ready")
        time.sleep(0.3)
        child.sendintr()
        status = status_of(child)
        check(status == 130, f"Ctrl-C in a recipe: {name}", f"status {status}: {child.before}")
        check("interrupted" in child.before, f"it says so: {name}", child.before)


def supervisor_alone(folder):
    """A signal to the supervisor alone, as `kill PID` sends it, reaches the worker."""
    path = os.path.join(folder, "loop.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + 'print("ready")\nwhile true do end\n')
    for sent, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        child = subprocess.Popen([CAPL, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)
        child.send_signal(sent)
        child.communicate(timeout=10)
        check(child.returncode == expected, f"{sent.name} to the supervisor gives {expected}", str(child.returncode))


def time_limit(folder):
    path = os.path.join(folder, "loop.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write("--- capl: 1\n--- needs: minutes=0.01\nwhile true do end\n")
    done = subprocess.run([CAPL, path], capture_output=True, text=True, timeout=20)
    check(done.returncode == 124, "the header's minutes end a run with 124", f"{done.returncode} {done.stderr}")
    check("stopped after 0.01 minutes" in done.stderr, "and say so", done.stderr)


def worker_killed(folder):
    path = os.path.join(folder, "loop.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + "while true do end\n")
    child = subprocess.Popen([CAPL, path], stderr=subprocess.PIPE, text=True)
    worker = None
    for _ in range(100):
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="utf-8") as file:
            words = file.read().split()
        if words:
            worker = int(words[0])
            break
        time.sleep(0.05)
    time.sleep(0.2)
    os.kill(worker, signal.SIGKILL)
    _, text = child.communicate(timeout=10)
    check(child.returncode == 137, "a killed worker gives 137", str(child.returncode))
    check("ended by signal 9 (Killed): often the system ran out of memory" in text, "and a sentence", text)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def supervisor_killed(folder):
    """Nothing is left of a run whose supervisor was killed, also while it is in one call of minutes."""
    path = os.path.join(folder, "long.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + 'local x = capl.ones({6000, 6000}, {device = "ref"})\nprint("ready")\nx:matmul(x)\n')
    child = pexpect.spawn(CAPL, [path], timeout=20, encoding="utf-8")
    child.expect("ready")
    with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="utf-8") as file:
        worker = int(file.read().split()[0])
    time.sleep(0.3)
    os.kill(child.pid, signal.SIGKILL)
    killed = time.monotonic()
    while is_alive(worker) and time.monotonic() < killed + 8:
        time.sleep(0.05)
    took = time.monotonic() - killed
    if is_alive(worker):
        os.kill(worker, signal.SIGKILL)
    child.close()
    check(took < 5, "a worker in a long call is gone 5 s after its supervisor was killed", f"{took:.1f} s")


def few_descriptors(folder):
    """Wherever descriptors run out, it is said, and soon."""
    path = os.path.join(folder, "few.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + "print(1)\n")
    for words in ([path], ["-e", "print(1)"], [path, "--ranks=2"]):
        for n in range(4, 17):
            limit = functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (n, n))
            done = subprocess.run([CAPL, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, preexec_fn=limit)
            told = f"at most {n} files may be open here (ulimit -n), and this needs" in done.stderr and "hint: " in done.stderr
            if done.returncode != 1 or not told:
                check(False, f"ulimit -n {n}: {' '.join(words)} says so", f"{done.returncode}\n{done.stdout}\n{done.stderr}")
    print("ok 4 to 16 descriptors are reported to be too few")


def little_memory(folder):
    """A library that crashes for want of memory is no bug of capl's, and Lua says no more than that."""
    path = os.path.join(folder, "memory.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + "local x = capl.randn(1, 8, 32, 32)\nprint(nn.Conv2d(8, 16, 3)(x):sum():item() ~= 0)\n")
    if subprocess.run(["bash", "-c", f"ulimit -v 4000000; {CAPL} -e 'print(1)'"], capture_output=True).returncode:
        return print("ok (a sanitizer needs more)")
    cases = [(mb, "-e 'print(1)'") for mb in range(13, 30)] + [(mb, path) for mb in range(120, 300, 12)]
    for mb, words in cases:
        done = subprocess.run(["bash", "-c", f"ulimit -v {mb}000; {CAPL} {words}"], capture_output=True, text=True, timeout=30)
        if "PANIC" in done.stderr or "this is a bug" in done.stderr:
            check(False, f"{mb} MB: {words} shows that memory is short", f"{done.returncode}\n{done.stderr}")
    print("ok little memory is reported as that")
    return None


def small_files(folder):
    """What ulimit -f stops is reported as that, also where a supervisor writes it."""
    path = os.path.join(folder, "files.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + "for i = 1, 2000 do print(i) end\n")
    done = subprocess.run(["bash", "-c", f"ulimit -f 1; {CAPL} {path} > out"], capture_output=True, text=True, timeout=30)
    check(done.returncode == 1 and "as large as ulimit -f allows?" in done.stderr, "ulimit -f is no full disk", f"{done.returncode} {done.stderr}")


def prompt(folder):
    env = dict(os.environ, CAPL_HISTORY=os.path.join(folder, "history"), TERM="xterm")
    child = pexpect.spawn(CAPL, [], timeout=20, encoding="utf-8", env=env)
    child.expect("capl> ")
    child.sendline("x = 41")
    child.expect("capl> ")
    child.sendline("while true do end")
    time.sleep(0.5)
    child.sendintr()
    child.expect("interrupted")
    child.expect("capl> ")
    child.send("half a line")
    child.expect("half a line")
    child.sendintr()
    child.expect("capl> ")
    child.sendline("x + 1")
    child.expect("42")
    child.expect("capl> ")
    child.sendeof()
    status = status_of(child)
    check(status == 0, "Ctrl-C at the prompt keeps the session", str(status))


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        loops(folder)
        supervisor_alone(folder)
        time_limit(folder)
        worker_killed(folder)
        supervisor_killed(folder)
        few_descriptors(folder)
        little_memory(folder)
        small_files(folder)
        prompt(folder)


main()
