"""Runs what recipes may try against the sandbox, with both sandbox layers and with the first one alone, and looks for what got through.

FILE.lua in this folder holds attempts: a line "--- SENTENCE", notes ("-- says: TEXT" the words it must end with, "-- limits: WHAT"
the limit it must end by), then Lua. An attempt that succeeds calls ESCAPED(). Those of a file run in one process, each in a pcall
with globals of its own; those with limits alone. Without the system's wall Lua is not compiled.

    run.py [--one-wall] [FILE…]   --one-wall: not behind the system's wall and no bombs, for sanitizers

Fails when a marker or a secret is printed, a command to a terminal arrives, a file outside is read or changed, a process ends by a
signal, or a limit is not what ends it. SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
CAPL = os.environ["CAPL_BIN"]
SECRET = "SECRET-OF-THE-USER"

# limit -> what the header asks for, the exit status, the words of the end
LIMITS = {
    "memory": ("memory=32MB", 1, ("own tables and texts take more than", )),
    "tensors": ("memory=32MB", 1, ("out of memory", "memory limit", "bytes are this recipe's")),
    "time": ("minutes=0.004", 124, ("minutes", "time")),
    "output": ("output=1MB", 1, ("printed and written more than", )),
}

DRIVER = """--- capl: 1
local function copy()
  local env = {}
  for key, value in pairs(_G) do env[key] = value end
  env._G, env.INSIDE, env.OUTSIDE, env.ESCAPED = env, %s, %s, function() print("ESCAPED") end
  return env
end
local load, pcall, print, tostring, error = load, pcall, print, tostring, error
local function attempt(number, text)
  local f = load(text, "=attempt", "t", copy())
  if not f then error("attempt " .. number .. " is no Lua") end
  print("BEGIN " .. number)
  local ok, err = pcall(f)
  local told, words = pcall(tostring, err)
  print("END " .. number .. " " .. tostring(ok) .. " " .. tostring(told and words))
end
"""


def read_attempts(path):
    """[(sentence, {note: text}, Lua)] of a file."""
    out = []
    for block in re.split(r"(?m)^--- ", path.read_text())[1:]:
        sentence, _, body = block.partition("\n")
        out.append((sentence, dict(re.findall(r"(?m)^-- (says|limits): (.*)$", body)), body))
    return out


def make_scene(top):
    """A recipe's folder, a working folder, and what lies outside both."""
    inside, outside, work = top / "recipe", top / "outside", top / "work"
    for folder in (inside / "links", inside / "folder.lua", inside / "model_link.capl", outside, work / "runs/other"):
        folder.mkdir(parents=True)
    code = (f'data.png_write("{outside}/word.png", capl.zeros({{3, 20, 60}}, {{dtype = "u8"}})) '
            f'capl.io.save("{outside}/weights.safetensors", {{weight = capl.zeros(1, 1), bias = capl.zeros(1)}}) '
            f'train.save("{outside}/state", {{a = 1}}) capl.io.save("{inside}/own.safetensors", {{weight = capl.zeros(1, 1)}})')
    subprocess.run([CAPL, "-e", code], check=True, timeout=60, cwd=top, stdout=subprocess.DEVNULL)
    texts = {
        work / "runs/other/state.capl": "of another run",
        outside / "secret.csv": f"{SECRET},1\n2,3\n", outside / "list.txt": "word.png\tword\n", outside / "outside.lua": f'return "{SECRET}"',
        outside / "font.ttf": "no font", inside / "module.lua": "return 1", inside / "circle.lua": 'local x = require "circle" return x',
        inside / "yields.lua": "coroutine.yield(1) return 1", inside / "list_out.txt": f"{outside}/word.png\tword\n",
        inside / "list_up.txt": "../outside/word.png\tword\n", inside / "list_link.txt": "links/word.png\tword\n",
        inside / "list_in.txt": "word.png\tword\n", inside / "list_out.jsonl": f'{{"path": "{outside}/word.png", "label": "word"}}\n',
    }
    for path, text in texts.items():
        path.write_text(text)
    (inside / "bytecode.lua").write_bytes(b"\x1bLJ\x02\x00\x0cattempt")
    links = {
        inside / "link.lua": "../outside/outside.lua", inside / "folder_link": "../outside", inside / "way": "../outside",
        inside / "absolute.lua": inside / "module.lua", inside / "null.lua": "/dev/null", inside / "links/word.png": outside / "word.png",
        inside / "loop": "loop", inside / "db_link": "../outside", inside / "model_link.capl/weights.safetensors": outside / "weights.safetensors",
        work / "runs/planted": outside, work / "runs/dangling.png": outside / "through_a_link.png",
    }
    for path, target in links.items():
        path.symlink_to(target)
    os.mkfifo(inside / "pipe.lua")
    return inside, outside, work


def state_of(folder):
    """What would tell that something was changed below folder."""
    out = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        known = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        out[str(path)] = (info.st_mode, info.st_size, known)
    return out


class Mode:
    """Both walls, or the first one alone."""

    def __init__(self, name, top):
        self.name = name
        self.env = dict(os.environ, SECRET=SECRET)
        if name == "one wall":
            self.env["CAPL_ASSUME"] = "landlock=0,seccomp=none"
        if "ASAN_OPTIONS" in self.env: # memory that is not there is for the engine to refuse, not for the sanitizer
            self.env["ASAN_OPTIONS"] += ":allocator_may_return_null=1"
        self.top = top / name.replace(" ", "_")
        self.top.mkdir()
        self.inside, self.outside, self.work = make_scene(self.top)
        self.before = {folder: state_of(folder) for folder in (self.outside, self.inside)}

    def run(self, name, text):
        """A recipe in a working folder of its own -> its output and status."""
        work = self.top / ("work_" + re.sub(r"\W+", "_", name))[:60]
        if not work.exists():
            subprocess.run(["cp", "-a", self.work, work], check=True)
        path = self.inside / f"{re.sub(r'[^a-z]+', '_', name)[:50]}.lua"
        path.write_text(text)
        done = subprocess.run([CAPL, str(path)], cwd=work, env=self.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        path.unlink()
        return (done.stdout + done.stderr).decode("utf-8", "backslashreplace"), done.returncode, work

    def places(self):
        """Lua's INSIDE and OUTSIDE."""
        outside = [self.outside, "../outside", f"{self.inside}/../outside", f"{self.inside}/way", "runs/planted", "runs/../../outside"]
        return f'"{self.inside}"', "{" + ", ".join(f'"{path}"' for path in outside) + "}"


def common_faults(text, status):
    if status < 0 or status > 128 or "ended by" in text or re.search(r"ERROR: \w+Sanitizer|runtime error:", text):
        yield f"ended with status {status}"
    if "ESCAPED" in text:
        yield "escaped"
    if SECRET in text:
        yield "read the secret"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text):
        yield "sent a command to the terminal"


def run_group(mode, path, attempts):
    """All attempts of a file that need no limit."""
    text = DRIVER % mode.places()
    kept = [(i, a) for i, a in enumerate(attempts) if "limits" not in a[1]]
    for i, (_, _, body) in kept:
        level = "=" * 8
        text += f"attempt({i}, [{level}[{body}]{level}])\n"
    output, status, _ = mode.run(path.stem, text)
    faults = [(path.stem, fault) for fault in common_faults(output, status)]
    for i, (sentence, notes, _) in kept:
        found = re.search(rf"(?ms)^BEGIN {i}$(.*?)^END {i} (.*?)(?=^BEGIN |\Z)", output)
        if not found:
            faults.append((sentence, "did not come to its end:\n" + output[-2000:]))
            break
        if "ESCAPED" in found.group(1):
            faults.append((sentence, "escaped: " + found.group(1)[-600:]))
        if "says" in notes and notes["says"] not in found.group(0):
            faults.append((sentence, f"does not say '{notes['says']}' but: {found.group(0)[-800:]}"))
    return faults


def run_alone(mode, path, attempt):
    sentence, notes, body = attempt
    needs, expected, words = LIMITS[notes["limits"]]
    output, status, work = mode.run(f"{path.stem} {sentence}", f"--- capl: 1\n--- needs: {needs}\n{body}")
    subprocess.run(["rm", "-rf", work], check=True)
    faults = [(sentence, fault + ":\n" + output[-800:]) for fault in common_faults(output, 0 if status == expected else status)]
    if status != expected or not any(word in output for word in words):
        faults.append((sentence, f"status {status}, not by the limit of {notes['limits']}:\n{output[-800:]}"))
    return faults


def main():
    one_wall = "--one-wall" in sys.argv
    chosen = [pathlib.Path(word) for word in sys.argv[1:] if word != "--one-wall"]
    every = [path for path in sorted(HERE.glob("*.lua")) if not (one_wall and path.stem == "bombs")]
    files = {path: read_attempts(path) for path in chosen or every}
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(3) as pool:
        modes = [Mode(name, pathlib.Path(folder)) for name in (["one wall"] if one_wall else ["both walls", "one wall"])]
        jobs = []
        for mode in modes:
            for path, attempts in files.items():
                jobs.append((mode, pool.submit(run_group, mode, path, attempts)))
                if not one_wall:
                    jobs += [(mode, pool.submit(run_alone, mode, path, a)) for a in attempts if "limits" in a[1]]
        faults = [(mode.name, *fault) for mode, job in jobs for fault in job.result()]
        for mode in modes:
            for place, before in mode.before.items():
                after = state_of(place)
                faults += [(mode.name, path, "was changed") for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    for mode, sentence, fault in faults:
        print(f"{mode}: {sentence}: {fault}")
    count = sum(len(attempts) for attempts in files.values())
    print(f"{count} attempts, {len(faults)} of them not held" if faults else f"{count} attempts are held")
    sys.exit(1 if faults else 0)


main()
