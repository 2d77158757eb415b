"""Compiles every .cu file with the NVRTC of another CUDA, and assembles it with that CUDA's ptxas: nvcc is in no wheel.

usage: kernels.py LIBNVRTC PTXAS CAPABILITY INCLUDE_DIRECTORY...
NVRTC knows no host code and no headers of C. So tables of kernels become kernels that return the addresses, which makes an
instance of every template that a table names, and the few names of C's headers are given here.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import glob
import os
import subprocess
import sys
import tempfile

STDINT = "".join(f"typedef signed {kind} int{bits}_t;\ntypedef unsigned {kind} uint{bits}_t;\n"
                 for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long")))
LIMITS = """typedef unsigned long uintptr_t;
#define UINT8_MAX 255
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807l - 1)
#define INT64_MAX 9223372036854775807l
#define UINT64_C(n) n##ul
#define INT64_C(n) n##l
"""
HEADERS = {
    "stdint.h": "#pragma once\n" + STDINT + LIMITS,
    "math.h": "#pragma once\n#define INFINITY __int_as_float(0x7f800000)\n#define NAN __int_as_float(0x7fffffff)\n",
    "float.h": "#pragma once\n#define FLT_MAX 3.402823466e+38f\n#define FLT_MIN 1.175494351e-38f\n",
    "cuda_runtime.h": "#include <math.h>\n#include <float.h>\n", "stdbool.h": "", "stddef.h": "", "string.h": "",
}
TABLES = """#include "backend/cuda/kernels/kernel.h"
#undef CU_TABLE
#define CU_TABLE(name, ...) extern "C" __global__ void table_##name(cu_entry *out) { \\
  const cu_entry list[] = {__VA_ARGS__}; for (unsigned i = 0; i < sizeof list / sizeof *list; i++) out[i] = list[i]; }
"""


def text_of(nvrtc, program, what):
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def compile_to_ptx(nvrtc, path, options):
    """-> PTX, or None and what the compiler said."""
    with open(path, encoding="utf-8") as file:
        source = TABLES + f'#line 1 "{path}"\n' + file.read()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), path.encode(), 0, None, None)
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*[o.encode() for o in options]))
    return (None, text_of(nvrtc, program, "ProgramLog")) if status else (text_of(nvrtc, program, "PTX"), "")


def assemble(ptxas, ptx, capability, folder):
    path = os.path.join(folder, "kernels.ptx")
    with open(path, "w", encoding="ascii") as file:
        file.write(ptx)
    done = subprocess.run([ptxas, f"-arch=sm_{capability}", "-O1", "-o", os.path.join(folder, "kernels.cubin"), path],
                          capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def main(library, ptxas, capability, *include):
    nvrtc, failed, kernels = ctypes.CDLL(library), 0, 0
    files = sorted(glob.glob("engine/backend/cuda/kernels/*.cu"))
    with tempfile.TemporaryDirectory() as folder:
        for name, text in HEADERS.items():
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(text)
        options = [f"--gpu-architecture=compute_{capability}", "-std=c++17", "-default-device", "--device-int128", "-I" + folder,
                   *("-I" + path for path in (*include, "engine", "include"))]
        for path in files:
            ptx, why = compile_to_ptx(nvrtc, path, options)
            why = why if ptx is None else assemble(ptxas, ptx, capability, folder)
            kernels += (ptx or "").count(".entry ") - 1
            if why:
                print(f"FAILED {path}\n{why}")
                failed += 1
    print(f"sm_{capability}: {len(files)} files of kernels compiled, {kernels} kernels, {failed} files failed")
    sys.exit(1 if failed or not files else 0)


main(*sys.argv[1:])
