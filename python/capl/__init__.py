"""Trained models of capl: images in, texts, classes, masks, points, boxes, numbers out. No training.

    import capl
    model = capl.load("best.capl")
    print(model("image.png").text)

What a model takes and gives: Model.__call__ and capl.outputs. The engine's errors are capl.Error.
SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes as c
import io
import json
import os
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _library, outputs
from ._library import Error, check, library

__all__ = ["Error", "Field", "Model", "Verdict", "load", "outputs"]
__version__: str = library.capl_version().decode()

BATCH = 256  # samples of one call of the library: what bounds the memory of their readings


class Field(NamedTuple):
    """An input or output. names: its characters, classes, points or numbers; count: numbers that a sample has."""
    name: str
    kind: str
    names: List[str]
    count: int


class Verdict(NamedTuple):
    """How well this machine repeats what the model said when it was saved; difference is at most tolerance when ok."""
    ok: bool
    n: int
    difference: float
    tolerance: float
    same_texts: int


def load(path: Union[str, "os.PathLike[str]"], *, device: str = "cpu", precision: str = "auto") -> "Model":
    """Opens a model folder, NAME.capl.

    device: "cpu", "cuda", "cuda:1", "auto"; precision: "auto", "fp32", "bf16", "fp16".
    Raises Error: no such folder (code "io"), a damaged one ("format"), an unknown device or precision ("value").
    """
    return Model(path, device=device, precision=precision)


def _encoded(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode()


def _fields(list_: Any, n: int) -> List[Field]:
    found = []
    for f in (list_[i] for i in range(n)):
        names = [library.capl_vocab_name(f.vocab, k).decode() for k in range(library.capl_vocab_count(f.vocab))]
        found.append(Field(f.name.decode(), f.kind.decode(), names, f.numbers))
    return found


class Model:
    """An open model. One thread uses it at a time: a lock sees to that. Closed by close(), by `with` or with itself."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, device: str = "cpu", precision: str = "auto") -> None:
        self._box = c.c_void_p()
        self._lock, self._in_files = threading.RLock(), False
        self._path, self._device = os.fsencode(path), _encoded(device)
        options = _library.Options(self._device, _encoded(precision), False)
        check(library.capl_model_open(self._path, c.byref(options), c.byref(self._box)))
        info = _library.Info()
        library.capl_model_info_get(self._box, c.byref(info))
        #: px that images are resized to, channels 1 = gray or 3 = RGB; 0 where the model takes no image
        self.width, self.height, self.channels = info.width, info.height, info.channels
        self.precision: str = info.precision.decode()  #: what it computes in
        self.inputs: List[Field] = _fields(info.inputs, info.n_inputs)
        self.outputs: List[Field] = _fields(info.outputs, info.n_outputs)
        self.meta: Dict[str, Any] = json.loads(info.meta)  #: all of meta.json, docs/model-file.md
        self._names = [field.names for field in self.outputs]

    def close(self) -> None:
        """Frees its memory; using it afterwards is an Error."""
        if self._box:
            library.capl_model_close(self._box)
            self._box = c.c_void_p()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_box", None):
            self.close()

    def _open(self) -> c.c_void_p:
        if not self._box:
            raise Error("the model is closed; capl.load opens it again", "state")
        if self._in_files:
            raise Error("files() of this model is still being read; list(model.files(paths)) reads all", "state")
        return self._box

    def __call__(self, images: Any, *, errors: str = "raise") -> Any:
        """What the model says of one sample, or of a list of them: a list in the same order.

        images: a path; the bytes of a PNG or JPEG file; an array u8 (H,W), (H,W,1) or (H,W,3); a PIL image; for a
          model with inputs beside the image {name: one of these or numbers}; or a list of such, or an array (N,H,W,C)
          or (N,H,W).
        errors: "raise" an Error for the first sample that cannot be read, or "return" it in its place.
        -> capl.outputs.Text, Class, Mask … for a model with one unnamed output, else {name: output}.
        """
        if errors not in ("raise", "return"):
            raise Error(f'errors is "raise" or "return", not {errors!r}')
        alone = _is_one(images)
        samples = [images] if alone else list(images)
        with self._lock:
            read = [one for at in range(0, len(samples), BATCH) for one in self._run(samples[at:at + BATCH])]
        for one in read if errors == "raise" else []:
            if isinstance(one, Error):
                raise one
        return read[0] if alone else read

    def _run(self, batch: Sequence[Any]) -> List[Any]:
        kept: List[Any] = []  # what the library reads must live as long as the call
        samples = (_library.Sample * len(batch))(*(self._sample(one, kept) for one in batch))
        readings = (_library.Reading * len(batch))()
        check(library.capl_model_run(self._open(), samples, len(batch), readings))
        try:
            return [outputs.of(reading, self._names) for reading in readings]
        finally:
            library.capl_readings_free(readings, len(batch))

    def files(self, paths: Sequence[Union[str, "os.PathLike[str]"]], *, workers: int = -1) -> Iterator[Any]:
        """What the model says of many files, one after the other; an Error in place of one that cannot be read.

        workers: threads that decode while earlier images are computed, -1 = one per processor.
        """
        encoded = (c.c_char_p * len(paths))(*(os.fsencode(path) for path in paths))
        files, readings, n = c.c_void_p(), c.POINTER(_library.Reading)(), c.c_int()
        with self._lock:
            check(library.capl_model_files_begin(self._open(), encoded, len(paths), workers, c.byref(files)))
            self._in_files = True
            try:
                while True:
                    check(library.capl_model_files_next(files, c.byref(readings), c.byref(n)))
                    if n.value == 0:
                        return
                    yield from [outputs.of(readings[i], self._names) for i in range(n.value)]
            finally:
                self._in_files = False
                library.capl_model_files_end(files)

    def decoding(self, *, beam: int = 0, characters: Optional[str] = None,
                 length: Union[None, int, Tuple[int, int]] = None) -> None:
        """How texts are read from now on. beam: texts of a beam search, CTC models; characters: only these, "0-9";
        length: of a text, CTC models. Without arguments as at first. Raises Error for what the model cannot do."""
        least, most = (length, length) if isinstance(length, int) else length or (0, 0)
        with self._lock:
            decoding = _library.Decoding(beam, _encoded(characters), least, most)
            check(library.capl_model_decoding_set(self._open(), c.byref(decoding)))

    def verify(self) -> Verdict:
        """Repeats the golden pairs of the model file. Raises Error where it has none."""
        v = _library.Verdict()
        if os.path.exists(os.path.join(self._path, b"golden/inputs.safetensors")):
            check(library.capl_model_verify_tensors(self._path, self._device, c.byref(v)))
        else:
            with self._lock:
                check(library.capl_model_verify(self._open(), c.byref(v)))
        return Verdict(v.ok, v.n, v.difference, v.tolerance, v.same_texts)

    # ---- samples ----

    def _sample(self, given: Any, kept: List[Any]) -> _library.Sample:
        """A sample as the library takes it. kept: gets what it points to."""
        sample = _library.Sample()
        named = given if isinstance(given, dict) else {self.inputs[0].name: given}
        unknown = [name for name in named if name not in [field.name for field in self.inputs]]
        missing = [field.name for field in self.inputs if field.name not in named]
        if unknown or missing:
            wanted = ", ".join(f"{field.name or '(unnamed)'}: {field.kind}" for field in self.inputs)
            wrong = f"{missing[0]!r} is missing" if missing else f"there is no {unknown[0]!r}"
            raise Error(f"a sample of this model is {{{wanted}}}; {wrong}")
        rows = []
        for field in self.inputs:
            if field.kind == "image":
                _set_image(sample, named[field.name], kept)
            else:
                rows.append(_numbers(field, named[field.name], kept))
        if rows:
            values = (c.POINTER(c.c_float) * len(rows))(*rows)
            sample.values = values
            kept.append(values)
        return sample


def _is_pil(given: Any) -> bool:
    return hasattr(given, "save") and hasattr(given, "mode") and hasattr(given, "getbands")


def _is_one(given: Any) -> bool:
    """Whether it is one sample, not a list of them."""
    if isinstance(given, np.ndarray):
        return given.ndim == 2 or (given.ndim == 3 and given.shape[2] in (1, 3, 4))
    return isinstance(given, (str, bytes, bytearray, memoryview, os.PathLike, dict)) or _is_pil(given)


def _png_of(image: Any) -> bytes:
    """A PIL image as the engine's own reader takes it: so alpha and palettes become what they become in a file."""
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = image.convert("RGB")
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=0)
    return file.getvalue()


def _set_image(sample: _library.Sample, given: Any, kept: List[Any]) -> None:
    if isinstance(given, (str, os.PathLike)):
        sample.path = os.fsencode(given)
        kept.append(sample.path)
        return
    if _is_pil(given):
        given = _png_of(given)
    if isinstance(given, (bytes, bytearray, memoryview)):
        data = np.frombuffer(given, np.uint8)
        sample.file, sample.file_bytes = data.ctypes.data, data.size
        kept.append(data)
        return
    if not isinstance(given, np.ndarray):
        raise Error("an image is a path, the bytes of a file, a NumPy array or a PIL image, "
                    f"not {type(given).__name__}")
    planes = given.shape[2] if given.ndim == 3 else 1
    if given.dtype != np.uint8 or given.ndim not in (2, 3) or planes not in (1, 3) or 0 in given.shape:
        raise Error(f"an array of an image is u8 (H,W), (H,W,1) or (H,W,3), RGB, not {given.dtype} {given.shape}; "
                    "levels from 0 to 255 by array.astype(np.uint8), alpha by a PIL image or the bytes of a file")
    pixels = np.ascontiguousarray(given)
    sample.pixels, sample.height, sample.width = pixels.ctypes.data, pixels.shape[0], pixels.shape[1]
    sample.channels = pixels.shape[2] if pixels.ndim == 3 else 1
    kept.append(pixels)


def _numbers(field: Field, given: Any, kept: List[Any]) -> Any:
    values = np.ascontiguousarray(given, np.float32)
    if values.size != field.count:
        raise Error(f"the input {field.name!r} takes {field.count} numbers, not {values.size}: {values.shape}")
    kept.append(values)
    return values.ctypes.data_as(c.POINTER(c.c_float))
