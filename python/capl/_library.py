"""libcapl by ctypes: the structures and functions of include/capl/model.h, field.h and error.h that prediction needs.

tests/e2e/python.py compares every size and offset below with what a C compiler makes of the headers.
SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes as c
import os

FIELDS_MAX = 16  # CAPL_MODEL_FIELDS_MAX


class Error(Exception):
    """What the engine says of a failure. code: "io", "format", "value" …, as in recipes; hint: what to change."""

    def __init__(self, message: str, code: str = "value", context: str = "", hint: str = "") -> None:
        self.message, self.code, self.context, self.hint = message, code, context, hint
        super().__init__("\n".join(part for part in (message, context, hint and "hint: " + hint) if part))


class ErrorRecord(c.Structure):  # capl_error
    _fields_ = [("code", c.c_int), ("message", c.c_char * 1024), ("context", c.c_char * 1024), ("hint", c.c_char * 512),
                ("file", c.c_char_p), ("line", c.c_int)]


class Options(c.Structure):  # capl_model_options
    _fields_ = [("device", c.c_char_p), ("precision", c.c_char_p), ("plain", c.c_bool)]


class Field(c.Structure):  # capl_model_field
    _fields_ = [("name", c.c_char_p), ("kind", c.c_char_p), ("vocab", c.c_void_p), ("numbers", c.c_size_t)]


class Letterbox(c.Structure):  # capl_letterbox
    _fields_ = [("on", c.c_bool), ("top_left", c.c_bool), ("fill", c.c_uint8 * 3)]


class Info(c.Structure):  # capl_model_info
    _fields_ = [("width", c.c_int), ("height", c.c_int), ("channels", c.c_int), ("letterbox", Letterbox),
                ("n_widths", c.c_int),
                ("widths", c.POINTER(c.c_int)), ("n_inputs", c.c_int), ("n_outputs", c.c_int),
                ("inputs", c.POINTER(Field)), ("outputs", c.POINTER(Field)), ("precision", c.c_char_p),
                ("meta", c.c_char_p)]


class Decoding(c.Structure):  # capl_text_decoding
    _fields_ = [("beam", c.c_int), ("characters", c.c_char_p), ("length_min", c.c_int), ("length_max", c.c_int)]


class Sample(c.Structure):  # capl_model_sample
    _fields_ = [("path", c.c_char_p), ("file", c.c_void_p), ("file_bytes", c.c_size_t), ("pixels", c.c_void_p),
                ("width", c.c_int), ("height", c.c_int), ("channels", c.c_int),
                ("values", c.POINTER(c.POINTER(c.c_float)))]


class ClassScore(c.Structure):  # capl_class_score
    _fields_ = [("id", c.c_int32), ("name", c.c_char_p), ("probability", c.c_float)]


class Output(c.Structure):  # capl_output
    _fields_ = [("name", c.c_char_p), ("kind", c.c_char_p), ("text", c.c_char_p), ("confidence", c.c_double),
                ("length", c.c_int), ("sure", c.POINTER(c.c_float)), ("n_top", c.c_int), ("top", c.POINTER(ClassScore)),
                ("n_values", c.c_int), ("per_row", c.c_int), ("values", c.POINTER(c.c_double)), ("width", c.c_int),
                ("height", c.c_int), ("channels", c.c_int), ("levels", c.POINTER(c.c_uint8))]


class Reading(c.Structure):  # capl_reading
    _fields_ = [("n_outputs", c.c_int), ("outputs", Output * FIELDS_MAX), ("width", c.c_int), ("height", c.c_int),
                ("status", c.c_int), ("error", c.c_char * 1024), ("memory", c.c_void_p)]


class Verdict(c.Structure):  # capl_model_verdict
    _fields_ = [("n", c.c_int), ("difference", c.c_double), ("largest", c.c_double), ("same_texts", c.c_int),
                ("tolerance", c.c_double), ("ok", c.c_bool)]


# name: result, arguments
FUNCTIONS = {
    "capl_version": (c.c_char_p, []),
    "capl_status_name": (c.c_char_p, [c.c_int]),
    "capl_error_last": (c.POINTER(ErrorRecord), []),
    "capl_vocab_count": (c.c_int32, [c.c_void_p]),
    "capl_vocab_name": (c.c_char_p, [c.c_void_p, c.c_int32]),
    "capl_model_open": (c.c_int, [c.c_char_p, c.POINTER(Options), c.POINTER(c.c_void_p)]),
    "capl_model_close": (None, [c.c_void_p]),
    "capl_model_info_get": (None, [c.c_void_p, c.POINTER(Info)]),
    "capl_model_decoding_set": (c.c_int, [c.c_void_p, c.POINTER(Decoding)]),
    "capl_model_run": (c.c_int, [c.c_void_p, c.POINTER(Sample), c.c_int, c.POINTER(Reading)]),
    "capl_readings_free": (None, [c.POINTER(Reading), c.c_int]),
    "capl_model_files_begin": (c.c_int, [c.c_void_p, c.POINTER(c.c_char_p), c.c_uint32, c.c_int,
                                         c.POINTER(c.c_void_p)]),
    "capl_model_files_next": (c.c_int, [c.c_void_p, c.POINTER(c.POINTER(Reading)), c.POINTER(c.c_int)]),
    "capl_model_files_end": (None, [c.c_void_p]),
    "capl_model_verify": (c.c_int, [c.c_void_p, c.POINTER(Verdict)]),
    "capl_model_verify_tensors": (c.c_int, [c.c_char_p, c.c_char_p, c.POINTER(Verdict)]),
}


def _open() -> c.CDLL:
    """CAPL_LIBRARY, the library inside this package, or the system's (Debian's package libcapl0)."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libcapl.so.0")
    path = os.environ.get("CAPL_LIBRARY") or (inside if os.path.exists(inside) else "libcapl.so.0")
    try:
        library = c.CDLL(path)
    except OSError as why:
        raise ImportError(f"libcapl could not be loaded: {why}; install the wheel of scripts/wheel or the Debian package "
                          "libcapl0, or set CAPL_LIBRARY to the path of libcapl.so.0") from why
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError as why:
            raise ImportError(f"{path} has no {name}: it is of another version than this package") from why
        function.restype, function.argtypes = result, arguments
    return library


library = _open()


def failure(status: int) -> Error:
    """The last failure of this thread."""
    record = library.capl_error_last().contents
    return Error(record.message.decode("utf-8", "replace"), library.capl_status_name(status).decode(),
                 record.context.decode("utf-8", "replace"), record.hint.decode("utf-8", "replace"))


def check(status: int) -> None:
    """Raises Error unless status is CAPL_OK."""
    if status != 0:
        raise failure(status)
