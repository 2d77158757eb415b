"""The model file and its commands: predict, eval, verify, the C example, and every command of docs/model-file.md.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import shutil
import struct
import subprocess
import zlib

from program import CAPL, ROOT, capl, check, in_empty_folder

MODEL = "runs/captcha/best.capl"
RECIPE = """--- capl: 1
-- A small reader of digits, trained for seconds.
capl.manual_seed(3)
local train = data.loader {
  source = data.captcha {charset = "0-9", length = 3, width = 96, height = 40, count = 960}, role = "train", batch = 32,
}
local test = data.loader {
  source = data.captcha {charset = "0-9", length = 3, width = 96, height = 40, count = 64, fixed = true}, role = "test",
  batch = 32,
}
local model = nn.Sequential {
  nn.PixelUnshuffle(4), nn.Conv2d(16, 32, 3, {padding = 1, bias = false}), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
  nn.Flatten(), nn.Linear(32 * 5 * 12, 30),
}
local opt = optim.AdamW(model:parameters(), {lr = 2e-3})
for batch in train:epoch(1) do
  opt:backward_step(nn.cross_entropy(model(batch.image):view(-1, 10), batch.target:view(-1)))
end
local meter = capl.text_meter(train.charset)
model:eval()
for batch in test:epoch(1) do
  meter:add(model(batch.image):view(-1, 10):argmax(-1):tolist(), batch.target:view(-1):tolist(), 3)
end
capl.save_model(capl.run_folder() .. "/best.capl", model, {metrics = meter:result()})
print(("exact=%.17g"):format(meter:result().exact))
"""
STRIDED = """
capl.manual_seed(4)
local net = nn.Sequential {
  nn.Conv2d(1, 32, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(32, 64, 3, {stride = {2, 1}, padding = 1}), nn.ReLU(),
  nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(256, 30),
}
capl.io.save_model("strided.capl", net, capl.zeros(1, 1, 16, 28), {output = "text", charset = "0123456789", length = 3,
  width = 28, height = 16, channels = 1, normalize = "unit"})
data.save_captchas{dir = "narrow", count = 12, seed = 5, charset = "0-9", length = 3, width = 28, height = 16}
"""


def png(path, width, height, value):
    """A gray image of one level, without any library."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + bytes([value]) * width for _ in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def prepare():
    with open("captcha.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    status, out, err = capl("captcha.lua")
    check(status == 0, "a recipe saves a model with nothing but its loaders to tell about it", out + err)
    exact = float(re.search(r"^exact=(.+)$", out, re.M)[1])
    capl("-e", "data.save_captchas{dir = 'images', count = 100, seed = 9, charset = '0-9', length = 3, width = 96, height = 40}")
    check(len(os.listdir("images")) == 100, "images to read")
    return exact


def meta(exact):
    with open(MODEL + "/meta.json", encoding="utf-8") as file:
        values = json.load(file)
    wanted = {"capl_model": 1, "charset": "0123456789", "length": 3, "width": 96, "height": 40, "channels": 1, "resize": "bicubic",
              "normalize": "standardize", "output": "text", "decoding": "argmax", "recipe": "captcha.lua"}
    check({key: values.get(key) for key in wanted} == wanted, "meta.json says it all", str(values))
    check(re.fullmatch("[0-9a-f]{64}", values["recipe_sha256"]), "and names the recipe's text", str(values))
    check(abs(values["metrics"]["exact"] - exact) < 1e-9 and values["metrics"]["n"] == 64, "and the metrics", str(values))
    with open(os.path.join(ROOT, "docs/model-file.md"), encoding="utf-8") as file:
        documented = set(re.findall(r"`(\w+)`", "".join(line for line in file if line.startswith("| `"))))
    check(set(values) <= documented, "docs/model-file.md has every key", str(set(values) - documented))
    check(sorted(os.listdir(MODEL)) == ["golden", "golden.safetensors", "graph.json", "meta.json", "weights.safetensors"],
          "its files", str(os.listdir(MODEL)))
    check(len(os.listdir(MODEL + "/golden")) == 8, "golden images")


def predict():
    names = sorted(os.listdir("images"))
    status, out, err = capl("predict", MODEL, "images")
    rows = [line.split("\t") for line in out.splitlines()]
    check(status == 0 and err == "" and [row[0] for row in rows] == ["images/" + name for name in names], "a folder", out + err)
    check(all(re.fullmatch(r"\d{3}", row[1]) and 0 < float(row[2]) <= 1 for row in rows), "text and confidence", out)
    status, listed, err = capl("predict", MODEL, "-", text="".join(f"images/{name}\n" for name in names))
    check(status == 0 and listed == out, "the same from a list on standard input", listed + err)
    late = subprocess.run(["sh", "-c", f"(sleep 0.3; ls images/*.png) | {CAPL} predict {MODEL} -"], capture_output=True, text=True, timeout=60)
    check(late.returncode == 0 and late.stdout == out, "also from one that is written late", late.stdout + late.stderr)
    _, alone, _ = capl("predict", MODEL, "images/" + names[7], "--workers=0")
    check(alone == "\t".join(rows[7]) + "\n", "and alone", alone)
    _, again, err = capl("predict", MODEL, "images", "--workers=3")
    check(again == out, "and with any number of threads", again + err)
    status, again, err = capl("predict", MODEL, "images", "--precision=bf16")
    check(status == 0 and len(again.splitlines()) == 100, "and in bf16", again + err)
    _, out, _ = capl("predict", MODEL, "images", "--json")
    values = [json.loads(line) for line in out.splitlines()]
    check([v["text"] for v in values] == [row[1] for row in rows], "the same as JSON", out)
    check(all(abs(v["confidence"] - float(row[2])) < 1e-4 for v, row in zip(values, rows)), "with its confidence", out)
    return rows


def alone_as_among():
    """A convolution that steps by 2 along columns alone, which bf16 computes by Winograd along rows: fewer images than threads, too.

    Only where bf16 is native: other kernels sum in an order that follows the number of images."""
    if "precision auto: bf16" not in capl("info")[1]:
        print("skipped: one image has the bits that it has among others: this processor is not one that reads in bf16")
        return
    status, out, err = capl("-e", STRIDED)
    check(status == 0, "a model with a strided convolution", out + err)
    threads = {"OMP_NUM_THREADS": "2"}
    _, among, err = capl("predict", "strided.capl", "narrow", "--json", env=threads)
    check(len(among.splitlines()) == 12, "it reads a folder", among + err)
    for line in among.splitlines():
        _, alone, err = capl("predict", "strided.capl", json.loads(line)["path"], "--json", env=threads)
        check(alone == line + "\n", "an image alone has the confidence that it has among others", alone + err + line)


def bad_files(rows):
    first, last = rows[0][0], rows[-1][0]
    with open("bad.png", "w", encoding="utf-8") as file:
        file.write("<html>")
    with open("cut.png", "wb") as file, open(first, "rb") as whole:
        file.write(whole.read()[:300])
    status, out, err = capl("predict", MODEL, first, "bad.png", "cut.png", "gone.png", last)
    check(status == 1, "bad files give status 1", out + err)
    check(out == "\t".join(rows[0]) + "\n" + "\t".join(rows[-1]) + "\n", "and the others go on", out)
    lines = err.splitlines()
    check([line.split(":")[0] for line in lines[:3]] == ["bad.png", "cut.png", "gone.png"], "each is named", err)
    check(lines[3:] == ["3 of 5 images could not be read"], "and counted", err)
    strange = "a\tb\nc\\d\x1b[2J.png"
    shutil.copy(first, strange)
    status, out, err = capl("predict", MODEL, strange)
    check((status, out) == (0, "\t".join(["a\\tb\\nc\\\\d\\x1b[2J.png", *rows[0][1:]]) + "\n"), "a name with a tab and a newline is one field", out + err)
    os.remove(strange)
    status, out, err = capl("predict", MODEL, "gone\x1b[2J.png")
    check(status == 1 and "gone\\x1b[2J.png" in err and "\x1b" not in err, "nor does an error in a pipe hold commands to a terminal", err)
    status, out, _ = capl("predict", MODEL, "bad.png", "--json")
    check(status == 1 and json.loads(out)["error"].startswith("bad.png: "), "JSON names them too", out)


def other_sizes(rows):
    png("small.png", 48, 20, 200)
    png("flat.png", 300, 20, 200)
    status, out, err = capl("predict", MODEL, rows[0][0], "small.png", "flat.png", "small.png")
    check(status == 0 and len(out.splitlines()) == 4, "images of another size are read", out + err)
    check(err == "note: 3 of 4 images were resized to the model's 96 x 40 px: 48 x 20 px (2), 300 x 20 px (1)\n",
          "and it is said once", err)


def other_kinds(rows):
    os.mkdir("gifs")
    shutil.copy(rows[0][0], "gifs/a.png")
    for name in ("a.gif", "b.webp"):
        with open("gifs/" + name, "wb") as file:
            file.write(b"GIF89a")
    status, out, err = capl("predict", MODEL, "gifs/")
    check(status == 0 and out.count("\n") == 1 and err == "note: of other kinds and not read: 2, such as gifs/a.gif; convert them to PNG\n",
          "images of a folder that are not read are said", out + err)


def evaluate(rows):
    names = [os.path.basename(row[0]) for row in rows]
    right = sum(name.split("_")[0] == row[1] for name, row in zip(names, rows))
    status, out, err = capl("eval", MODEL, "--data=images", "--errors=wrong.tsv", "--json")
    check(status == 0, "eval", out + err)
    result = json.loads(out)
    check(result["n"] == 100 and round(100 * result["exact"]) == right, "eval counts what predict reads", out)
    check(len(result["positions"]) == 3 and result["resized"] == 0 and "merged" not in result, "per position", out)
    with open("wrong.tsv", encoding="utf-8") as file:
        wrong = [line.rstrip("\n").split("\t") for line in file]
    expected = [[row[0], name.split("_")[0], row[1], row[2]] for name, row in zip(names, rows) if name.split("_")[0] != row[1]]
    check(wrong == expected and 0 < len(wrong) < 100, "--errors lists the wrong ones", str(wrong[:3]))
    _, out, _ = capl("eval", MODEL, "--data=images")
    check(re.search(r"exact [\d.]+ % \[[\d.]+, [\d.]+\]", out) and "by position:" in out, "eval in words", out)
    status, _, err = capl("eval", MODEL, "--data=images", "--label=^(..)")
    check(status == 1 and "100 of 100 files have no usable label; the first: images/" in err, "labels that do not fit", err)
    evaluate_others(rows, result)


def evaluate_others(rows, of_folder):
    """A list and a database of the same images say the same as their folder."""
    with open("list.tsv", "w", encoding="utf-8") as file:
        file.writelines(f"{row[0]}\t{os.path.basename(row[0]).split('_')[0]}\n" for row in rows)
    status, _, err = capl("data", "pack", "images", "--out=packed")
    check(status == 0, "a folder is packed", err)
    for source, first in (("list.tsv", rows[0][0]), ("packed", "image-000000001")):
        status, out, err = capl("eval", MODEL, f"--data={source}", "--errors=wrong.tsv", "--json")
        check(status == 0, f"eval of {source}", out + err)
        result = json.loads(out)
        same = all(result[key] == of_folder[key] for key in ("n", "exact", "positions", "resized"))
        check(same, f"{source} is judged as its folder", out)
        with open("wrong.tsv", encoding="utf-8") as file:
            names = [line.split("\t")[0] for line in file]
        check(all(len(name) == len(first) and name.startswith(first[:6]) for name in names), "wrong ones are named", str(names[:3]))
    status, _, err = capl("eval", MODEL, "--data=packed", "--label=^(..)")
    check(status == 1 and "--label is a rule for folders; packed has its own labels" in err, "databases have no rule", err)


def verify():
    status, out, err = capl("verify", MODEL)
    check(status == 0 and "8 golden pairs" in out and out.rstrip().endswith("ok"), "verify", out + err)
    shutil.copytree(MODEL, "hurt.capl")
    with open("hurt.capl/weights.safetensors", "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(struct.pack("<f", 50))
    for command in (["verify"], ["predict", "images"], ["eval", "--data=packed"], ["info"]):
        status, out, err = capl(command[0], "hurt.capl", *command[1:])
        check(status == 1 and "is not what was saved: its SHA-256 is" in err, f"{command[0]} refuses a changed weight", out + err)
    with open("hurt.capl/meta.json", encoding="utf-8") as file:
        meta = json.load(file)
    del meta["weights_sha256"]
    with open("hurt.capl/meta.json", "w", encoding="utf-8") as file:
        json.dump(meta, file)
    status, out, err = capl("verify", "hurt.capl", "--json")
    check(status == 1 and json.loads(out)["ok"] is False and "damaged" in err, "without a hash, verify finds it out", out + err)
    shutil.rmtree("hurt.capl/golden")
    status, _, err = capl("verify", "hurt.capl")
    check(status == 1 and err.startswith("hurt.capl/golden/00.png: cannot be read"), "a missing image is named", err)
    status, _, err = capl("verify", "nothing.capl")
    check(status == 1 and "nothing.capl" in err, "a missing model is named", err)
    status, _, err = capl("verify", "runs/captcha")
    check(status == 1 and "hint: name the model: runs/captcha/best.capl" in err, "a run's folder is no model", err)
    for command in ("predict", "verify"):
        status, _, err = capl(command)
        check(status == 1 and f"capl {command} MODEL" in err, f"{command} without words shows its usage", err)
        status, out, _ = capl(command, "--help")
        check(status == 0 and f"capl {command} MODEL" in out and "--json" in out, f"{command} --help lists its options", out)


def install():
    """Installs into ./prefix; the manifest of the user's own install is put back."""
    build = os.environ["CAPL_BUILD_DIR"]
    manifest = build + "/install_manifest.txt"
    kept = open(manifest, "rb").read() if os.path.exists(manifest) else None
    subprocess.run(["cmake", "--install", build, "--prefix", os.path.abspath("prefix")], check=True, stdout=subprocess.DEVNULL)
    if kept is None:
        os.remove(manifest)
    else:
        with open(manifest, "wb") as file:
            file.write(kept)


def compiler_folder():
    """A cc that adds what a sanitized libcapl needs."""
    os.mkdir("bin")
    linked = subprocess.run(["ldd", "prefix/bin/capl"], capture_output=True, text=True, check=True).stdout
    flags = "-fsanitize=address,undefined" if "asan" in linked else ""
    with open("bin/cc", "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec gcc -std=c11 -Wall -Wextra -Werror {flags} "$@"\n')
    os.chmod("bin/cc", 0o755)
    return os.path.abspath("bin")


def documentation(rows):
    """Every command of docs/model-file.md, word for word."""
    install()
    os.mkdir("build")
    os.symlink(CAPL, "build/capl")
    os.symlink(os.path.join(ROOT, "docs"), "docs")
    shutil.copy(rows[0][0], "2A7K_000.png")
    with open(os.path.join(ROOT, "docs/model-file.md"), encoding="utf-8") as file:
        commands = [line.strip() for line in file if re.match(r"    (build/capl|ls|cc|\./predict) ", line)]
    check(len(commands) == 9, "the commands of docs/model-file.md", "\n".join(commands))
    lib = os.path.abspath("prefix/lib")
    env = {**os.environ, "PKG_CONFIG_PATH": lib + "/pkgconfig", "LD_LIBRARY_PATH": lib, "OMP_NUM_THREADS": "1",
           "PATH": compiler_folder() + ":" + os.environ["PATH"]}
    for command in commands:
        run = command.replace("images/2A7K_000.png", "2A7K_000.png")
        done = subprocess.run(["sh", "-c", run], env=env, capture_output=True, text=True, check=False)
        check(done.returncode == 0 and done.stderr == "", command, done.stdout + done.stderr)
    check(done.stdout == "2A7K_000.png\t" + "\t".join(rows[0][1:]) + "\n", "C reads what predict reads", done.stdout)


def main():
    exact = prepare()
    meta(exact)
    rows = predict()
    alone_as_among()
    bad_files(rows)
    other_sizes(rows)
    other_kinds(rows)
    evaluate(rows)
    verify()
    documentation(rows)


in_empty_folder(main)
