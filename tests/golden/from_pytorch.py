"""docs/from-pytorch.md: both sides of its tables give the same numbers, its scripts the same loss.

usage: from_pytorch.py [--scripts]   with --scripts capl's scripts alone, against from_pytorch.json

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import with_torch

torch = None
if "--scripts" not in sys.argv:
    with_torch.need("torch")
    import torch

ROOT, CAPL = os.environ["CAPL_SOURCE_DIR"], os.environ["CAPL_BIN"]
# What gives random numbers, or says nothing of numbers, is compared by its shape, or not at all.
RANDOM = r"randn|nn\.(Dropout|Conv|Linear|LSTM|Embedding|Sequential|init)|manual_seed|model|optim|state_dict|opt\.|Data"

PRINT = """
local function flat(v, out)
  if capl.is_tensor(v) then v = v:to("f32"):reshape(-1):tolist() end
  if type(v) == "table" then for _, e in ipairs(v) do flat(e, out) end
  elseif type(v) == "number" then out[#out + 1] = ("%.6g"):format(v)
  elseif type(v) == "boolean" then out[#out + 1] = v and "1" or "0" end
  return out
end
function tell(n, f) local ok, v = pcall(f); print("ROW", n, ok and table.concat(flat(v, {}), " ") or "FAILED") end
"""


def rows(text):
    return [(a, b) for a, b in re.findall(r"(?m)^\| `([^`|]+)` \| `([^`|]+)` \|$", text) if not re.search(RANDOM, a)]


def theirs(python, code):
    scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    exec(python, scope)  # pylint: disable=exec-used
    value = eval(code, scope)  # pylint: disable=eval-used
    if torch.is_tensor(value):
        return value.detach().double().reshape(-1).tolist()
    return torch.tensor(value).double().reshape(-1).tolist()


def last_loss(command, folder):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    loss = re.search(r"(?m)^loss\s+(\S+)$", done.stdout)
    if not loss:
        sys.exit(f"FAILED: {command} printed no loss: {done.stdout[-500:]}{done.stderr[-1000:]}")
    return float(loss.group(1))


def pair(name, python, lua, ranks):
    """The last losses of PyTorch's script and of capl's: (None without PyTorch, loss)."""
    with tempfile.TemporaryDirectory() as folder:
        for path, code in ((f"{name}.py", python), (f"{name}.lua", lua)):
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write(code)
        ours = last_loss([os.path.abspath(CAPL), f"{name}.lua"] + ([f"--ranks={ranks}"] if ranks > 1 else []), folder)
        if not torch:
            return None, ours
        torchrun = ["-m", "torch.distributed.run", f"--nproc_per_node={ranks}"] if ranks > 1 else []
        return last_loss([sys.executable, *torchrun, f"{name}.py"], folder), ours


def scripts(text):
    """Compares the last losses of the pairs of whole scripts with each other, and with those of from_pytorch.json."""
    path = os.path.join(ROOT, "tests/golden/from_pytorch.json")
    with open(path, encoding="utf-8") as file:
        kept = json.load(file)
    pairs = re.findall(r"(?s)```python\n((?:(?!```).)*)```\n\nIn capl, `(\w+)\.lua`:\n\n```lua\n(.*?)```", text)
    if sorted(kept) != sorted(name for _, name, _ in pairs):
        sys.exit(f"FAILED: the page has the scripts {[name for _, name, _ in pairs]}, from_pytorch.json {list(kept)}")
    for python, name, lua in pairs:
        ranks = int((re.search(rf"capl {name}\.lua --ranks=(\d+)", text) or [0, 1])[1])
        if ranks > 1 and not shutil.which("mpirun"):
            print(f"skipped: {name}.lua needs mpirun")
            continue
        theirs_, ours = pair(name, python, lua, ranks)
        for side, loss in (("PyTorch's", theirs_), ("capl's", ours)):
            if loss is not None and abs(loss - kept[name]) > 1e-4:
                sys.exit(f"FAILED: {name}: {side} last loss is {loss}, {kept[name]} in from_pytorch.json")
    print(f"ok {len(pairs)} pairs of scripts end with the same loss")


def main():
    with open(os.path.join(ROOT, "docs/from-pytorch.md"), encoding="utf-8") as file:
        text = file.read()
    if not torch:
        return scripts(text)
    python = re.search(r"(?s)```python\n(.*?)```", text).group(1)
    setup = "".join(line[6:] + "\n" for line in re.findall(r"(?m)^capl> .*$", re.search(r"(?s)```console\n(.*?)```", text).group(1)))
    pairs = rows(text)
    asked = "".join(f"tell({i}, function() return {b} end)\n" for i, (_, b) in enumerate(pairs))
    prelude = "".join(" ".join(line for line in part.split("\n")) + "\n" for part in [PRINT.replace("\n", " ")])
    done = subprocess.run([CAPL], input=setup + prelude + asked, capture_output=True, text=True, timeout=60, check=False)
    ours = {int(n): values for n, values in re.findall(r"(?m)^ROW\t(\d+)\t(.*)$", done.stdout)}
    compared = 0
    for i, (a, b) in enumerate(pairs):
        try:
            wanted = theirs(python, a)
        except (SyntaxError, NameError, TypeError, ValueError, RuntimeError, AttributeError):
            continue  # a statement, or what gives no numbers
        given = [float(v) for v in ours.get(i, "").split()] if ours.get(i) != "FAILED" else None
        if given is None or len(given) != len(wanted) or any(abs(g - w) > 1e-4 * max(1, abs(w)) for g, w in zip(given, wanted)):
            sys.exit(f"FAILED: {a} gives {json.dumps(wanted)[:200]}\n{b} gives {json.dumps(given)[:200]}\n{done.stderr[-500:]}")
        compared += 1
    if compared < 60:
        sys.exit(f"FAILED: only {compared} of {len(pairs)} rows were compared")
    print(f"ok {compared} rows give the same numbers as PyTorch {torch.__version__}")
    return scripts(text)


main()
