#!/usr/bin/env python3
"""Calls everything that recipes can call, with anything, for some seconds; shrinks what fails and prints it.

usage: run.py PROGRAM [--seconds=N] [--runs=N] [--seed=N] [--calls=N] [--jobs=N] [--replay=FILE] [--found=FOLDER]

PROGRAM is fuzz_api, best built with sanitizers. --runs=N: so many processes instead of seconds. Each process makes --calls calls from a seed of its own; what it called before
it died is made shorter, call by call, and written to FOLDER. --replay repeats the calls of a file instead: regressions.lua is
always replayed first. Findings are crashes, calls that no Ctrl-C stops, and errors that do not say what was wrong.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
DRIVER = os.path.join(HERE, "driver.lua")
REGRESSIONS = os.path.join(HERE, "regressions.lua")
LIMIT = 120  # seconds of one process; calls that take long are stopped before
SHRINKS = 120  # runs that making a finding shorter may take


def environment():
    values = dict(os.environ, LC_ALL="C.UTF-8", HOME="/nowhere", XDG_CACHE_HOME="cache")
    values.setdefault("ASAN_OPTIONS", "detect_stack_use_after_return=0:detect_leaks=0")
    values["ASAN_OPTIONS"] += ":allocator_may_return_null=1:handle_abort=1:max_allocation_size_mb=2000"
    values.setdefault("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1")
    return values


class Result:
    """What a process did: its exit status, its calls, its findings, its last words."""

    def __init__(self, status, log, errors):
        self.status, self.errors = status, errors
        lines = log.split("\n")
        self.calls = [line[2:] for line in lines if line.startswith("S ")]
        self.hung = "H" in lines
        self.through = sum(int(line[2:]) for line in lines if line.startswith("C "))
        # One kernel with more work than a call may take is no hang: what it computes is limited by memory alone.
        self.slow = self.hung and ("/backend/" in errors or "dnnl" in errors)
        self.findings, last = [], ""
        for line in lines:
            if line.startswith("S "):
                last = line[2:]
            elif line.startswith("F "):
                kind, place, text = (line[2:].split("\t") + ["", ""])[:3]
                self.findings.append((kind, place, text, last))

    def crashed(self):
        return self.status != 0 and not self.slow

    def what(self):
        """One line that tells crashes apart."""
        if self.status == "timeout":
            return "waits for ever"
        if self.hung:
            return "hangs: no Ctrl-C stops it"
        for line in self.errors.split("\n"):
            if "runtime error:" in line or "ERROR: AddressSanitizer" in line:
                return line.strip()[:200]
        for line in self.errors.split("\n"):
            if line.startswith("fuzz_api:"):
                return line[:200]
        return f"ends with status {self.status}"


def run(program, words):
    folder = tempfile.mkdtemp(prefix="capl-fuzz-")
    log = os.path.join(folder, "log")
    work = os.path.join(folder, "work")
    os.mkdir(work)
    try:
        with open(os.path.join(folder, "stderr"), "w+b") as errors:
            process = subprocess.Popen([program, log, DRIVER, *words], cwd=work, env=environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=errors)
            try:
                status = process.wait(timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = "timeout"
            errors.seek(0)
            text = errors.read().decode("utf-8", "replace")
        with open(log, encoding="utf-8", errors="replace") as file:
            return Result(status, file.read(), text)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def replay(program, calls):
    with tempfile.NamedTemporaryFile("w", suffix=".lua", encoding="utf-8", errors="replace") as file:
        file.write("\n".join(calls) + "\n")
        file.flush()
        return run(program, ["replay", file.name])


def shrink(program, result, deadline):
    """The fewest calls that still end the process: halves of what stands before the last one are left out, then quarters …"""
    calls, size = result.calls, max(1, len(result.calls) // 2)
    runs = 0
    while runs < SHRINKS and time.monotonic() < deadline:
        at, smaller = 0, False
        while at < len(calls) - 1 and runs < SHRINKS and time.monotonic() < deadline:
            end = min(at + size, len(calls) - 1)
            less = replay(program, calls[:at] + calls[end:])
            runs += 1
            if less.crashed() and less.hung == result.hung and (less.status == "timeout") == (result.status == "timeout"):
                calls, smaller = less.calls, True
            else:
                at = end
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return calls


class Report:
    def __init__(self, program, found):
        self.program, self.found, self.crashes, self.findings = program, found, {}, {}
        self.calls = self.slow = self.through = 0

    def add(self, result, name, shrinking=30):
        self.calls += len(result.calls)
        self.slow += result.slow
        self.through += result.through
        for kind, place, text, call in result.findings:
            entry = self.findings.setdefault((kind, place), [0, text, call])
            entry[0] += 1
        if not result.crashed():
            return
        what = result.what()
        if what in self.crashes:
            return
        self.crashes[what] = True
        calls = shrink(self.program, result, time.monotonic() + shrinking)
        self.save(name, what, calls, result.errors)
        print(f"CRASH ({name}): {what}\n  " + "\n  ".join(calls[-12:]), flush=True)
        tail = [line for line in result.errors.split("\n") if line.strip()]
        print("\n".join("    " + line[:160] for line in tail[:30]), flush=True)

    def save(self, name, what, calls, errors):
        os.makedirs(self.found, exist_ok=True)
        with open(os.path.join(self.found, f"{name}.lua"), "w", encoding="utf-8", errors="replace") as file:
            file.write(f"-- {what}\n" + "\n".join(calls) + "\n")
        with open(os.path.join(self.found, f"{name}.txt"), "w", encoding="utf-8", errors="replace") as file:
            file.write(errors)

    def end(self, most=60):
        for (kind, place), (count, text, call) in sorted(self.findings.items(), key=lambda item: -item[1][0])[:most]:
            print(f"FINDING {kind}: {place} ({count} times)\n  {call[:400]}\n    " + text.replace("\\n", "\n    ")[:900])
        print(f"api: {self.calls} calls, {self.through} of them without an error, {self.slow} ended by a kernel with too much to do, {len(self.crashes)} crashes, "
              f"{len(self.findings)} findings")
        return 1 if self.crashes or self.findings else 0


def random_runs(options, report):
    deadline = time.monotonic() + (LIMIT * options.runs if options.runs else options.seconds)
    seed, end = options.seed, options.seed + (options.runs or sys.maxsize)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {}
        while waiting or (time.monotonic() < deadline and seed < end):
            while len(waiting) < options.jobs and time.monotonic() < deadline and seed < end:
                waiting[pool.submit(run, options.program, ["random", str(seed), str(options.calls)])] = seed
                seed += 1
            done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                report.add(future.result(), f"api-{waiting.pop(future)}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--replay")
    parser.add_argument("--found", default="found")
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    report = Report(options.program, os.path.abspath(options.found))
    report.add(run(options.program, ["replay", os.path.abspath(options.replay or REGRESSIONS)]), "replay", 0)
    if not options.replay:
        random_runs(options, report)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
