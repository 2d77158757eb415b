"""Writes a golden file, or compares it with freshly computed values (--check).

Values are computed in float64 and rounded to 9 digits, so two versions of PyTorch write the same file
but for a last digit now and then; --check therefore compares with a tolerance.
SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import pathlib
import sys

# What float32 made of the same computation on one machine: recorded to set tolerances, never compared.
NOISE_KEYS = ("loss_noise", "grad_norm_noise")


def rounded(x, digits=9):
    """x as a plain number with so many significant digits."""
    return float(f"{float(x):.{digits}g}")


def _format(value, indent=0):
    """JSON with one line per innermost list or flat record: small, and readable in a diff."""
    flat = json.dumps(value)
    pad = " " * (indent + 1)
    if len(flat) + indent <= 160 or not isinstance(value, (dict, list)):
        return flat
    if isinstance(value, dict):
        body = [f"{pad}{json.dumps(key)}: {_format(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(body) + "\n" + pad[1:] + "}"
    if all(not isinstance(item, (dict, list)) for item in value):
        return flat
    return "[\n" + ",\n".join(pad + _format(item, indent + 1) for item in value) + "\n" + pad[1:] + "]"


def _differences(old, new, where, tolerance):
    """Lists the paths at which two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key in old:
            if key not in NOISE_KEYS:
                yield from _differences(old[key], new[key], f"{where}.{key}", tolerance)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (a, b) in enumerate(zip(old, new)):
            yield from _differences(a, b, f"{where}[{i}]", tolerance)
    elif isinstance(old, (int, float)) and isinstance(new, (int, float)):
        both_nan = old != old and new != new
        if not both_nan and not math.isclose(old, new, rel_tol=tolerance, abs_tol=1e-12):
            yield f"{where}: {old} in the file, {new} now"
    elif old != new:
        yield f"{where}: {old!r} in the file, {new!r} now"


def finish(script, values):
    """script.json beside the script: written, or compared when the command line says --check."""
    path = pathlib.Path(script).with_suffix(".json")
    if sys.argv[1:] == ["--check"]:
        found = list(_differences(json.loads(path.read_text()), values, path.name, 2e-8))
        print("\n".join(found) or f"{path.name}: same")
        sys.exit(bool(found))
    if sys.argv[1:]:
        sys.exit(f"usage: {script} [--check]")
    path.write_text(_format(values) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")
