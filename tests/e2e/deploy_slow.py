"""docs/deploy.md: every command of it, the readers in Python, LuaJIT and C against `capl predict`, archives of models.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import glob
import hashlib
import os
import re
import shutil
import subprocess
import zipfile

from page import Page, blocks, in_tree
from program import CAPL, ROOT, capl, check, in_empty_folder

BUILD = os.environ["CAPL_BUILD_DIR"]
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's NumPy
MODEL = """
capl.manual_seed(7)
local reader = nn.Sequential{nn.Conv2d(1, 4, 5, {stride = 4}), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 9 * 15, 30)}
capl.io.save_model("best.capl", reader, capl.zeros(1, 1, 40, 64), {output = "text", charset = "0123456789", length = 3,
  width = 64, height = 40, channels = 1, normalize = "unit"})
"""
INSTEAD = [
    (r"scripts/wheel --out=packages", f"CAPL_BUILD_DIR={BUILD} {ROOT}/scripts/wheel --plain --out=$PWD/packages | sed \"s|$PWD/||\""),
    (r"pip install", "pip install --no-index --no-deps -q"),
    (r"cmake --install build", f"cmake --install {BUILD}"),
    (r"^capl ", CAPL + " "),
]
SMALL = ["--samples=64", "--batch=16", "--val=20", "--test=60", "--files=8"]


def prepare():
    """-> whether there is a Python with NumPy to install a wheel into."""
    in_tree()
    status, out, err = capl("-e", MODEL)
    check(status == 0, "a model is saved", out + err)
    status, out, err = capl("generate", "--out=images", "--n=6", "--width=64", "--height=40", "--preset=free", "--length=3")
    check(status == 0, "images", out + err)
    made = subprocess.run([PYTHON, "-m", "venv", "--system-site-packages", "venv"], capture_output=True, check=False).returncode == 0
    os.environ["PATH"] = os.path.abspath("venv/bin") + ":" + os.environ["PATH"]
    os.environ.pop("PYTHONPATH", None)
    return made and subprocess.run(["venv/bin/python3", "-c", "import numpy"], capture_output=True, check=False).returncode == 0


def page(has_python):
    text = Page("deploy.md", INSTEAD)
    if not has_python:
        print("skipped: the commands of Python in docs/deploy.md: no venv of Debian's python3 with NumPy (python3-venv, python3-numpy)")
        text.blocks = [b for b in text.blocks if not any("pip install" in line for line in b.lines)]
    text.run()
    for block in blocks(text.text):  # what is shown is what runs
        ending = {"python": "py", "lua": "lua"}.get(block.kind)
        if ending:
            with open(f"docs/examples/predict.{ending}", encoding="utf-8") as file:
                check("\n".join(block.lines) in file.read(), f"docs/deploy.md shows docs/examples/predict.{ending}", "\n".join(block.lines))
    lines = len(open("docs/examples/predict.c", encoding="utf-8").readlines())
    check(f"has {lines} lines" in text.text, f"docs/examples/predict.c has {lines} lines")


def readers(has_python):
    images = sorted(glob.glob("images/*.png"))
    said = capl("predict", "best.capl", *images)[1].splitlines()
    check(len({line.split("\t")[1] for line in said}) > 3, "the images differ", str(said))
    commands = {"LuaJIT": ["luajit", "docs/examples/predict.lua"], "C": ["./predict"]}
    if has_python:
        commands["Python"] = ["python3", "docs/examples/predict.py"]
    env = {**os.environ, "LUA_CPATH": "opt/lib/lua/5.1/?.so;;", "OMP_NUM_THREADS": "1"}
    for name, command in commands.items():
        done = subprocess.run([*command, "best.capl", *images], capture_output=True, text=True, env=env, check=False)
        check(done.stdout.splitlines() == said, f"{name} reads what capl predict reads", done.stdout + done.stderr + "\n".join(said))
        done = subprocess.run([*command, "gone.capl", *images], capture_output=True, text=True, env=env, check=False)
        check(done.returncode != 0 and "cannot open the model gone.capl: No such file or directory" in done.stderr, f"{name}: no such model", done.stderr)


WHOLE = """
import capl, sys
print([reading.text for reading in capl.load("best.capl")(sys.argv[1:])])
print(sorted({line.split()[-1] for line in open("/proc/self/maps") if "libdnnl" in line}))
"""


def licenses(path):
    """A text for every library of the wheel, and one for capl; RECORD lists each file once, with its hash."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        texts = {os.path.basename(n): wheel.read(n).decode() for n in names if ".dist-info/licenses/" in n}
        record = next(n for n in names if n.endswith("/RECORD"))
        rows = [row.split(",") for row in wheel.read(record).decode().splitlines()]
        hashes = {n: base64.urlsafe_b64encode(hashlib.sha256(wheel.read(n)).digest()).rstrip(b"=").decode() for n in names if n != record}
    check("Apache License" in texts["LICENSE"], "the wheel has capl's license", str(names))
    named = set(re.findall(r"/usr/share/common-licenses/([A-Za-z]+(?:-[\d]+(?:\.\d+)?)?)", "".join(texts.values())))
    check(named and all(name + ".txt" in texts for name in named), "licenses that these refer to", f"{named} {sorted(texts)}")
    packages = [text[:-4] for text in texts if text.endswith(".txt")]
    owned = "".join(subprocess.run(["dpkg", "-L", p], capture_output=True, text=True, check=False).stdout for p in packages)
    libs = [re.sub(r"-[0-9a-f]{8}\.so", ".so", os.path.basename(n)) for n in names if n.startswith("capl.libs/")]
    without = [lib for lib in libs if f"/{lib}\n" not in owned]
    check(libs and not without and all(texts.values()), "the wheel has the license of every library in it", f"{without} {sorted(texts)}")
    check({row[0]: row[1] for row in rows if row[0] != record} == {n: "sha256=" + h for n, h in hashes.items()} and len(rows) == len(names),
          "RECORD fits the files", str(rows))


def whole_wheel():
    """The wheel that auditwheel has completed: it brings oneDNN, and reads the same."""
    done = subprocess.run([f"{ROOT}/scripts/wheel", f"--out={os.getcwd()}/whole"], capture_output=True, text=True, check=False,
                          env={**os.environ, "CAPL_BUILD_DIR": BUILD, "PATH": os.environ["PATH"].split(":", 1)[1]})
    check(done.returncode == 0, "scripts/wheel", done.stdout + done.stderr)
    if "NO AUDITWHEEL" in done.stderr:
        print("skipped: auditwheel cannot be had from PyPI, so the wheel has no manylinux tag and brings no libraries")
        return
    wheel = glob.glob("whole/*.whl")[0]
    check("manylinux_2_" in wheel, "its platform", wheel)
    licenses(wheel)
    done = subprocess.run(["pip", "install", "--no-index", "--no-deps", "-q", "--force-reinstall", wheel], capture_output=True, text=True, check=False)
    check(done.returncode == 0, "it installs", done.stderr)
    images = sorted(glob.glob("images/*.png"))
    said = [line.split("\t")[1] for line in capl("predict", "best.capl", *images)[1].splitlines()]
    done = subprocess.run(["python3", "-c", WHOLE, *images], capture_output=True, text=True, check=False)
    check(done.stdout.startswith(f"{said}\n") and "capl.libs/libdnnl" in done.stdout, "it reads with its own libraries", done.stdout + done.stderr)


def release(*words):
    done = subprocess.run([f"{ROOT}/scripts/release", f"--out={os.getcwd()}/packages", *words], capture_output=True, text=True, check=False,
                          env={**os.environ, "CAPL_BIN": CAPL, "OMP_NUM_THREADS": "1"})
    return done.returncode, done.stdout + done.stderr


def ready_model():
    status, out, err = capl("captcha", *SMALL)
    check(status == 0, "a short run", out + err)
    run = "--run=" + os.path.abspath("runs/captcha")
    status, said = release(run)
    check(status == 1 and "not packed, as its claim was not met; --any packs it" in said, "a run that misses its claim", said)
    status, said = release(run, "--any", "--install=" + os.path.abspath("opt"))
    check(status == 0 and "installed " in said and "texts the same: ok" in said, "scripts/release", said)
    archive = glob.glob("packages/capl-model-captcha-*.tar.gz")[0]
    before = open(archive, "rb").read()
    check(subprocess.run(["sha256sum", "-c", os.path.basename(archive) + ".sha256"], cwd="packages", capture_output=True, check=False).returncode == 0, "its hash")
    with open("opt/share/capl/models/captcha.claim.txt", encoding="utf-8") as file:
        claim = file.read()
    check(re.search(r"(?m)^weights +sha256 [0-9a-f]{64}$", claim) and "exact at least" in claim and "n=60" in claim, "its claim", claim)
    status, said = release(run, "--any")
    check(status == 0 and open(archive, "rb").read() == before, "the same run gives the same bytes", said)
    image = sorted(glob.glob("runs/captcha/files/*.png"))[0]
    there = capl("predict", "runs/captcha/best.capl", image)[1]
    installed = subprocess.run(["opt/bin/capl", "predict", "captcha", image], capture_output=True, text=True, check=False)
    check(installed.stdout == there != "", "capl predict finds it when installed", installed.stdout + installed.stderr)
    env = {"CAPL_MODELS": os.path.abspath("opt/share/capl/models")}
    for words in (["predict", "captcha", image], ["verify", "captcha"], ["info", "captcha"], ["eval", "captcha", "--data=runs/captcha/files"]):
        status, out, err = capl(*words, env=env)
        check(status == 0, " ".join(words[:2]), out + err)
    status, out, err = capl("predict", "capcha", image, env=env)
    check(status == 1 and "did you mean 'captcha'?" in err and "installed models: captcha; a run's is" in err, "a name like it", out + err)
    status, out, err = capl("predict", "captcha", image, env={"CAPL_MODELS": os.getcwd()})
    check(status == 1 and "there is no model 'captcha' here, and none is installed" in err, "none is installed", out + err)
    shutil.copytree("runs/captcha", "runs/damaged")
    with open("runs/damaged/best.capl/golden.safetensors", "r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(bytes(range(64)))
    status, said = release("--run=" + os.path.abspath("runs/damaged"), "--any")
    check(status == 1 and "is not packed, as capl verify fails" in said, "a model that capl verify refuses", said)
    status, said = release("--run=" + os.path.abspath("images"))
    check(status == 1 and "is no finished run: it has no result.json" in said, "a folder that is no run", said)


def shipped_model():
    """What models/ holds: with its hash, and it reads captchas that are new to it."""
    archive = glob.glob(f"{ROOT}/models/capl-model-captcha-*.tar.gz")[0]
    done = subprocess.run(["sha256sum", "-c", os.path.basename(archive) + ".sha256"], cwd=f"{ROOT}/models", capture_output=True, check=False)
    check(done.returncode == 0, "the hash of the model in models/")
    os.makedirs("shipped/share")
    subprocess.run(["tar", "xf", archive, "-C", "shipped"], check=True)
    status, out, err = capl("generate", "--preset=lepture", "--length=4", "--n=200", "--seed=77", "--out=shipped/images")
    check(status == 0, "captchas", out + err)
    env = {"CAPL_MODELS": os.path.abspath("shipped/share/capl/models")}
    status, out, err = capl("predict", "captcha", "shipped/images", env=env)
    read = [line.split("\t")[:2] for line in out.splitlines()]
    right = sum(os.path.basename(path).split("_")[0] == text for path, text in read)
    check(len(read) == 200 and right >= 185, "it reads 185 of 200", f"{right} {err}")


def main():
    manifest = os.path.join(BUILD, "install_manifest.txt")
    kept = open(manifest, encoding="utf-8").read() if os.path.exists(manifest) else None
    try:
        has_python = prepare()
        page(has_python)
        readers(has_python)
        if has_python:
            whole_wheel()
        ready_model()
        shipped_model()
    finally:  # the manifest is that of the user's own install
        if kept is not None:
            with open(manifest, "w", encoding="utf-8") as file:
                file.write(kept)
        elif os.path.exists(manifest):
            os.remove(manifest)


in_empty_folder(main)
