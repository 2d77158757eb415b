"""What capl says of a machine whose GPU cannot be used: each cause by its name, and what can be done.

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil
import subprocess
import sys
import tempfile

CAPL = os.environ["CAPL_BIN"]
SHIM = sys.argv[1]  # folder of the backend with the stand-in for CUDA


def run(words, **variables):
    env = {k: v for k, v in os.environ.items() if k not in ("CAPL_DEVICE", "CUDA_VISIBLE_DEVICES")}
    env.update({"CAPL_BACKEND_PATH": SHIM}, **variables)
    done = subprocess.run([CAPL, *words], env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def expect(what, words, status, *parts, **variables):
    code, text = run(words, **variables)
    for part in parts:
        if part not in text:
            sys.exit(f"FAILED: {what}: no «{part}» in\n{text}")
    if code != status:
        sys.exit(f"FAILED: {what}: status {code}, expected {status}\n{text}")
    print("ok", what)


def use(device):
    return ["-e", f"print(capl.zeros(1, {{device = '{device}'}}).device)"]


REFUSED = "device cuda is not available: "
CASES = {
    "no driver": ({"CAPL_SHIM_DEVICES": "0", "CAPL_SHIM_DRIVER": "none"}, ["no NVIDIA driver is installed"]),
    "a driver that is too old": (
        {"CAPL_SHIM_DEVICES": "0", "CAPL_SHIM_DRIVER": "old"},
        ["the NVIDIA driver is for CUDA ", "this build needs CUDA 13.0",
         "hint: install NVIDIA driver 580 or newer, or take a build of capl with the toolkit of CUDA 12.8, for which 525 is enough"]),
    "a driver that is too old for 12.8": (
        {"CAPL_SHIM_DEVICES": "0", "CAPL_SHIM_DRIVER": "old", "CAPL_SHIM_RUNTIME": "12080"},
        ["the NVIDIA driver is for CUDA ", "this build needs CUDA 12.8", "hint: install NVIDIA driver 525 or newer\n"]),
    "a driver without a GPU": ({"CAPL_SHIM_DEVICES": "0"}, ["the NVIDIA driver sees no GPU on this machine"]),
    "CUDA_VISIBLE_DEVICES that hides all": (
        {"CAPL_SHIM_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""},
        ['CUDA_VISIBLE_DEVICES="" leaves no GPU visible', "hint: unset CUDA_VISIBLE_DEVICES"]),
}


def refusals():
    for what, (variables, parts) in CASES.items():
        parts = [REFUSED + parts[0], *parts[1:]]
        expect(what, use("cuda"), 1, *parts, **variables)
        # auto goes on with the CPU and says why; info tells it and ends well.
        expect(what + ", auto", use("auto"), 0, "cpu\n", **variables)
        expect(what + ", info", ["info"], 0, "off       " + parts[0].removeprefix(REFUSED), **variables)


def least_driver():
    expect("the least driver", ["info"], 0, "CUDA      13.0, needs NVIDIA driver 580 or newer\n")
    expect("the least driver of 12.8", ["info"], 0, "CUDA      12.8, needs NVIDIA driver 525 or newer\n", CAPL_SHIM_RUNTIME="12080")


def other_cards():
    expect("a card older than the code", use("cuda"), 1,
           "has compute capability 6.1; this build has code for 7.5, 8.0", "--device=cpu", CAPL_SHIM_CAPABILITY="61")
    # A library of the wrong version is no reason for slow kernels, but for no GPU.
    old = "device cuda is not available: cuDNN 9.0.0 is installed, capl needs 9.1.0 or a later 9.x"
    expect("a cuDNN that is too old", ["tests/gpu/train.lua", "--device=cuda"], 1, old, CAPL_FAKE_DNN="old")
    expect("a cuDNN that is too old, info", ["info"], 0, "off       cuDNN 9.0.0 is installed", CAPL_FAKE_DNN="old")
    expect("a cuDNN that is too old, auto", use("auto"), 0, "cpu\n", CAPL_FAKE_DNN="old")
    expect("a card newer than the code", use("cuda"), 0, "cuda:0\n", CAPL_SHIM_CAPABILITY="120")
    expect("a card between two", use("cuda"), 0, "cuda:0\n", CAPL_SHIM_CAPABILITY="87")
    expect("a card that is not there", use("cuda:5"), 1,
           "device cuda:5 is not available: this process sees 1 GPU, the last is cuda:0")
    expect("the second of two", use("cuda:1"), 0, "cuda:1\n", CAPL_SHIM_DEVICES="2")
    expect("two cards in one process", ["-e", "capl.zeros(1, {device = 'cuda:0'}) capl.zeros(1, {device = 'cuda:1'})"], 1,
           "device cuda:1: this process uses cuda:0 already, and a process uses one GPU", CAPL_SHIM_DEVICES="2")
    expect("a number that is none", use("cuda:x"), 1, "unknown device 'cuda:x'")
    expect("tf32 on a card without it", ["tests/gpu/train.lua", "--device=cuda", "--precision=tf32"], 1,
           "precision = tf32 is not supported on cuda, which offers fp16, fp32", CAPL_SHIM_CAPABILITY="75")


def other_plugins():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "libcapl_cuda.so"), "w", encoding="ascii") as file:
            file.write("no library\n")
        expect("a plugin that is no library", use("cuda"), 1, REFUSED, "libcapl_cuda.so", CAPL_BACKEND_PATH=folder)
        shutil.copy(os.path.join(os.environ["CAPL_BUILD_DIR"], "libcapl_report.so"), os.path.join(folder, "libcapl_cuda.so"))
        expect("a plugin of another kind", use("cuda"), 1, "has no capl_backend_cuda_entry", CAPL_BACKEND_PATH=folder)
    source = ("struct { int abi; const char *name; } b = {1, \"cuda\"};\n"
              "const void *capl_backend_cuda_entry(void) { return &b; }\n")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "other.c")
        with open(path, "w", encoding="ascii") as file:
            file.write(source)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", os.path.join(folder, "libcapl_cuda.so"), path],
                       check=True)
        expect("a plugin of another version", use("cuda"), 1,
               REFUSED + "its libcapl_cuda.so is of another build of capl; build both anew", CAPL_BACKEND_PATH=folder)


def missing_library():
    """The plugin is there, what it needs is not: that is named, and where to look."""
    with tempfile.TemporaryDirectory() as folder:
        compiler = [os.environ.get("CC", "cc"), "-shared", "-fPIC"]
        needed, source = os.path.join(folder, "libneeded.so.9"), os.path.join(folder, "empty.c")
        with open(source, "w", encoding="ascii") as file:
            file.write("int nothing;\n")
        subprocess.run([*compiler, "-Wl,-soname,libneeded.so.9", "-o", needed, source], check=True)
        subprocess.run([*compiler, "-Wl,--no-as-needed", "-o", os.path.join(folder, "libcapl_cuda.so"), source, needed], check=True)
        os.remove(needed)
        expect("a library of NVIDIA's that is missing", use("cuda"), 1, REFUSED + "libneeded.so.9: cannot open shared object file",
               "hint: NVIDIA's libraries may be elsewhere: export LD_LIBRARY_PATH=$(scripts/nvidia-libs)", CAPL_BACKEND_PATH=folder)


refusals()
least_driver()
missing_library()
other_cards()
other_plugins()
