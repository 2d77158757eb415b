"""sass.py -- machine code of kernels as cuobjdump prints it: resources, loops, loads in flight, instructions by kind.

dump(FILE, ARCH) gives a Kernel per function. Numbers are of one thread; a loop is what a branch backwards encloses.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig

Instruction = collections.namedtuple("Instruction", "address text name")
BYTES = {"8": 1, "16": 2, "64": 8, "128": 16}
PREFIX = re.compile(r"^@!?U?P\w+\s+")
LINE = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?);")
BRANCH = re.compile(r"\bBRA\b.*?0x([0-9a-f]+)")
REGISTER = re.compile(r"\bR(\d+)\b(\.64)?")
CONDITION = re.compile(r"\bBRA\S*\s+!?U?P\w+,")
ENDS = ("EXIT", "RET", "BRX", "JMX")


def folders():
    """Where NVIDIA's tools may be: the PATH, beside nvcc, Python's nvidia-* packages."""
    yield from os.environ.get("PATH", "").split(os.pathsep)
    yield from (os.path.join(os.environ.get(name, ""), "bin") for name in ("CUDA_HOME", "CUDA_PATH"))
    yield "/usr/local/cuda/bin"
    for site in {sysconfig.get_paths()["purelib"], *sys.path}:
        yield from glob.glob(os.path.join(site, "nvidia", "*", "bin"))


def tools():
    """The environment in which cuobjdump finds nvdisasm; None where one of them is missing."""
    path = os.pathsep.join(f for f in folders() if f)
    if shutil.which("cuobjdump", path=path) and shutil.which("nvdisasm", path=path):
        return {**os.environ, "PATH": path}
    return None


def width(name):
    """Bytes that a load or store moves per thread."""
    for part in reversed(name.split(".")[1:]):
        part = part.lstrip("US") if part in ("U8", "S8", "U16", "S16") else part
        if part in BYTES:
            return BYTES[part]
    return 4


def is_load(i):
    return i.name.startswith("LDG")


def is_store(i):
    return i.name.startswith("STG")


def width_of_access(i):
    return width(i.name) if is_load(i) or is_store(i) else 0


def registers(text):
    """Numbers of the 32-bit registers in a list of operands."""
    found = set()
    for number, pair in REGISTER.findall(text):
        found.add(int(number))
        if pair:
            found.add(int(number) + 1)
    return found


def ends(i):
    """Whether control never goes on to the next instruction."""
    branch = BRANCH.search(i.text)
    always = i.text.split()[0] == i.name and not (branch and CONDITION.search(i.text)) and not i.name.startswith("BRA.DIV")
    return bool(always and (branch or i.name.split(".")[0] in ENDS))


def table_targets(code, places):
    """Where jumps through a table may go: instructions that control reaches neither from the one before nor by a branch."""
    aimed = {places.get(int(b.group(1), 16)) for b in map(BRANCH.search, (i.text for i in code)) if b}
    return [n + 1 for n, i in enumerate(code[:-1]) if ends(i) and n + 1 not in aimed]


def following(code, places, tables, n):
    """Where control may go from instruction n, forwards. BRA.DIV is for warps whose threads went apart."""
    i = code[n]
    if i.name.split(".")[0] in ("BRX", "JMX"):
        yield from (k for k in tables if k > n)
    branch = None if i.name.startswith("BRA.DIV") else BRANCH.search(i.text)
    if branch and places.get(int(branch.group(1), 16), -1) > n:
        yield places[int(branch.group(1), 16)]
    if not ends(i):
        yield n + 1


def loaded(i):
    first = int(REGISTER.search(i.text).group(1))
    return set(range(first, first + max(1, width(i.name) // 4)))


class Loop:
    """The instructions from a branch's target up to that branch."""

    def __init__(self, body):
        self.body = body
        self.loads = [i for i in body if is_load(i)]
        self.stores = [i for i in body if is_store(i)]
        self.bytes = sum(width(i.name) for i in self.loads + self.stores)

    def in_flight(self):
        """Loads issued before the first instruction that needs one of them, and their bytes."""
        waiting, count, total = set(), 0, 0
        for i in self.body:
            operands = i.text.split(",", 1)
            read = registers(i.text if is_store(i) else operands[1] if len(operands) > 1 else "")
            if waiting & read:
                break
            if is_load(i):
                waiting |= loaded(i)
                count, total = count + 1, total + width(i.name)
        return count, total


def way(code, first, last, least):
    """The way from an address to another that moves the most in accesses of `least` bytes or more, with the fewest narrower ones
    and calls; the shortest of equals. None: there is none."""
    places = {i.address: n for n, i in enumerate(code)}
    tables = table_targets(code, places)
    best = {}
    for n in range(places[last], places[first] - 1, -1):
        i = code[n]
        after = max((best[k] for k in following(code, places, tables, n) if k in best), default=None)
        if after or n == places[last]:
            moved, others, length, path = after or (0, 0, 0, ())
            access = width_of_access(i)
            best[n] = (moved + (access if access >= least else 0), others - (0 < access < least or i.name.startswith("CALL")),
                       length - 1, (n, path))
    if places[first] not in best:
        return None
    body, path = [], best[places[first]][3]
    while path:
        body.append(code[path[0]])
        path = path[1]
    return Loop(body)


class Kernel:
    """A function: its name, registers, bytes of stack, instructions."""

    def __init__(self, name):
        self.name, self.registers, self.stack, self.code = name, 0, 0, []

    def spans(self):
        """First and last address of each loop."""
        for i in self.code:
            branch = BRANCH.search(i.text)
            if branch and int(branch.group(1), 16) < i.address:
                yield int(branch.group(1), 16), i.address

    def way(self, moved, least):
        """The shortest way through a loop that moves so many bytes in accesses of `least` bytes or more; None without one."""
        ways = [way(self.code, *span, least) for span in self.spans()]
        fit = [w for w in ways if w and sum(n for n in map(width_of_access, w.body) if n >= least) == moved]
        return min(fit, key=lambda w: len(w.body), default=None)

    def loops(self):
        """Loops that enclose no other, with global loads."""
        spans = list(self.spans())
        inner = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
        bodies = [Loop([i for i in self.code if first <= i.address <= last]) for first, last in inner]
        return [b for b in bodies if b.loads]

    def main_loop(self):
        """The loop with the widest loads, of those the one that moves the most bytes a turn, the longest of equals; None without
        one. What the last block of a launch reads at the end it reads in narrow loads."""
        return max(self.loops(), key=lambda loop: (max(width(i.name) for i in loop.loads), loop.bytes, len(loop.body)),
                   default=None)


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout
    return [re.sub(r"\(anonymous namespace\)::|^void ", "", re.sub(r"\)\(.*$", ")", n)) for n in text.splitlines()]


def run(env, *args):
    return subprocess.run([shutil.which("cuobjdump", path=env["PATH"]), *args], env=env, text=True, capture_output=True, check=True).stdout


def usage(env, file, arch):
    """Registers and bytes of stack of a file's functions, by their names in the object."""
    text = run(env, "-res-usage", "-arch", "sm_" + arch, file)
    return {name: (int(registers), int(stack))
            for name, registers, stack in re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+)", text)}


def dump(env, file, arch):
    """The kernels of an object file or cubin for one compute capability ("90"), by short name: norm_apply<bf16, 8>."""
    kernels, now = {}, None
    for line in run(env, "-sass", "-arch", "sm_" + arch, file).splitlines():
        code = LINE.match(line)
        if code and now:
            text = code.group(2)
            bare = PREFIX.sub("", text)
            if not bare.startswith("NOP"):
                now.code.append(Instruction(int(code.group(1), 16), text, bare.split()[0]))
        elif "Function : " in line:
            now = kernels.setdefault(line.split(" : ")[1].strip(), Kernel(""))
    for name, (registers, stack) in usage(env, file, arch).items():
        if name in kernels:
            kernels[name].registers, kernels[name].stack = registers, stack
    for kernel, name in zip(kernels.values(), demangled(list(kernels))):
        kernel.name = short(name)
    return {k.name: k for k in kernels.values()}


def short(name):
    """norm_apply<__nv_bfloat16, 8>(norm_apply_args) as norm_apply<bf16, 8>."""
    name = re.sub(r"\([^()]*\)$", "", name.replace("(int)", "").replace("(bool)", ""))
    return name.replace("__nv_bfloat16", "bf16").replace("__half", "f16").replace("float", "f32")


def main(file, arch, *patterns):
    """Prints what is known of the kernels whose names match one of the patterns."""
    for name, k in sorted(dump(tools(), file, arch).items()):
        if patterns and not any(re.search(p, name) for p in patterns):
            continue
        print(f"{name}: registers {k.registers}, stack {k.stack}, instructions {len(k.code)}")
        for loop in k.loops():
            count, total = loop.in_flight()
            print(f"  loop {loop.body[0].address:x}..{loop.body[-1].address:x}: {len(loop.body)} instructions, "
                  f"{len(loop.loads)} loads, {len(loop.stores)} stores, {loop.bytes} bytes; in flight {count}, {total} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
