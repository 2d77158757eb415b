"""Images with masks that memory cannot hold are read batch by batch: the same batches, in less memory.

SPDX-License-Identifier: Apache-2.0
"""
import os
import subprocess

from program import CAPL, capl, check, in_empty_folder

N, SIZE, MB = 32, 512, 1e6
DECODED = N * SIZE * SIZE * 4 / MB  # pixels and masks of all, MB

# Weighted sums of two epochs of a set, and how the loader reads it.
CODE = """
local all = data.open("%s", {mask = {file = "_mask.png", classes = data.face_classes}, channels = 3})
local loader = data.loader{source = all, role = "train", batch = 8, workers = 2, dtype = "u8", seed = 5}
for epoch = 1, 2 do
  local sums = {0, 0}
  for batch in loader:epoch(epoch) do
    for k, t in ipairs{batch.image, batch.mask} do
      for i, x in ipairs(t:float():reshape(8, -1):mean(2):tolist()) do sums[k] = sums[k] * 0.9 + x * i end
    end
  end
  print(("%%.9g %%.9g"):format(sums[1], sums[2]))
end
print(loader:path())
"""


def read(path, memory):
    """-> the sums, the path of the loader, and the most memory that the process had, MB."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CAPL_ASSUME": "memory=" + memory}
    with subprocess.Popen([CAPL, "-e", CODE % path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as run:
        out = run.stdout.read()
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = status
    check(status == 0, "an epoch of " + path, out)
    *sums, how = out.strip().split("\n")
    return sums, how, usage.ru_maxrss * 1024 / MB


def main():
    for words in (["generate", "--preset=faces", f"--n={N}", f"--width={SIZE}", "--out=faces"],
                  ["data", "pack", "faces", "--mask=_mask.png", "--out=db"]):
        status, out, err = capl(*words)
        check(status == 0, " ".join(words), out + err)
    held, how, much = read("faces", "64GB")
    check(len(held) == 2 and held[0] != held[1] and "cached in memory" in how, "a large machine holds the set", str((held, how)))
    sums, how, little = read("faces", "40MB")
    check(sums == held, "a small machine reads the same batches", str((sums, held)))
    check("not cached: its" in how and "are more than half of the" in how, "it says that it holds none", how)
    check(little < much - 0.7 * DECODED, "it takes less memory", f"{little:.0f} MB, {much:.0f} MB with {DECODED:.0f} MB held")
    sums, how, _ = read("db", "16MB")  # 4 MB of its files in memory, the others in a temporary file
    check(sums == held and "not cached" in how, "a database larger than memory gives the same batches", str((sums, held, how)))


in_empty_folder(main)
