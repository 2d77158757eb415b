"""What a model says of a sample: a class for each kind of output, docs/deploy.md. Arrays are NumPy's, the reader's own.

SPDX-License-Identifier: Apache-2.0
"""
from __future__ import annotations

import ctypes as c
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence, Union

import numpy as np

from . import _library
from ._library import Error


@dataclass(frozen=True)
class Score:
    """A class and its probability, 0 to 1."""
    name: str
    id: int
    probability: float


@dataclass(frozen=True)
class Text:
    """A text; confidence: of the whole, characters: of each character, f32 (length,), all 0 to 1."""
    text: str
    confidence: float
    characters: np.ndarray


@dataclass(frozen=True)
class Class:
    """One of several classes; top: the most probable ones, best first, at most 16."""
    name: str
    confidence: float
    top: List[Score]


@dataclass(frozen=True)
class Classes:
    """All classes that the image has; confidence: that it is exactly these."""
    names: List[str]
    confidence: float
    top: List[Score]


@dataclass(frozen=True)
class Mask:
    """classes: u8 (height, width), the class of each pixel of the given image; shares: of each class, 0 to 1."""
    classes: np.ndarray
    shares: Dict[str, float]


@dataclass(frozen=True)
class Points:
    """xy: f64 (P, 2), px of the image that was given; visible: f64 (P,), how sure it is that the point is visible."""
    names: List[str]
    xy: np.ndarray
    visible: np.ndarray


@dataclass(frozen=True)
class Boxes:
    """xyxy: f64 (B, 4), left, top, right, bottom in px of the given image; names, confidence (B,); best first."""
    names: List[str]
    xyxy: np.ndarray
    confidence: np.ndarray


@dataclass(frozen=True)
class Numbers:
    """values: f64 (D,), in their units."""
    names: List[str]
    values: np.ndarray


@dataclass(frozen=True)
class Series:
    """values: f64 (T, D), the numbers of each step in their units."""
    names: List[str]
    values: np.ndarray


@dataclass(frozen=True)
class Image:
    """pixels: u8 (height, width), or (height, width, 3) in color."""
    pixels: np.ndarray


Output = Union[Text, Class, Classes, Mask, Points, Boxes, Numbers, Series, Image]


def _array(pointer: Any, kind: type, *size: int) -> np.ndarray:
    """A copy: the memory belongs to the reading."""
    if not pointer or 0 in size:
        return np.zeros(size, kind)
    return np.ctypeslib.as_array(pointer, size).astype(kind, copy=True)


def _rows(o: _library.Output) -> np.ndarray:
    per_row = max(o.per_row, 1)
    return _array(o.values, np.float64, o.n_values // per_row, per_row)


def _top(o: _library.Output) -> List[Score]:
    return [Score(s.name.decode(), s.id, s.probability) for s in (o.top[i] for i in range(o.n_top))]


def _text(o: _library.Output, _names: Sequence[str]) -> Text:
    return Text(o.text.decode(), o.confidence, _array(o.sure, np.float32, o.length))


def _class(o: _library.Output, _names: Sequence[str]) -> Class:
    return Class(o.text.decode(), o.confidence, _top(o))


def _classes(o: _library.Output, _names: Sequence[str]) -> Classes:
    top = _top(o)
    return Classes([score.name for score in top], o.confidence, top)


def _mask(o: _library.Output, names: Sequence[str]) -> Mask:
    shares = _array(o.values, np.float64, o.n_values)
    return Mask(_array(o.levels, np.uint8, o.height, o.width), dict(zip(names, shares.tolist())))


def _points(o: _library.Output, names: Sequence[str]) -> Points:
    rows = _rows(o)
    return Points(list(names), rows[:, :2].copy(), rows[:, 2].copy())


def _boxes(o: _library.Output, names: Sequence[str]) -> Boxes:
    rows = _rows(o).reshape(-1, 6)
    return Boxes([names[int(k)] for k in rows[:, 4]], rows[:, :4].copy(), rows[:, 5].copy())


def _numbers(o: _library.Output, names: Sequence[str]) -> Numbers:
    return Numbers(list(names), _array(o.values, np.float64, o.n_values))


def _series(o: _library.Output, names: Sequence[str]) -> Series:
    return Series(list(names), _rows(o))


def _image(o: _library.Output, _names: Sequence[str]) -> Image:
    size = (o.height, o.width) if o.channels == 1 else (o.height, o.width, o.channels)
    return Image(_array(o.levels, np.uint8, *size))


KINDS: Dict[str, Callable[[_library.Output, Sequence[str]], Output]] = {
    "text": _text, "class": _class, "classes": _classes, "mask": _mask, "points": _points, "boxes": _boxes,
    "numbers": _numbers, "series": _series, "image": _image,
}


def of(reading: _library.Reading, names: Sequence[Sequence[str]]) -> Any:
    """The only output, or {name: output} of several; an Error for a sample that is not read. names: of each output."""
    if reading.status != 0:
        code = _library.library.capl_status_name(reading.status).decode()
        return Error(reading.error.decode("utf-8", "replace"), code)
    found = {}
    for i in range(reading.n_outputs):
        output = reading.outputs[i]
        kind = output.kind.decode()
        if kind not in KINDS:
            raise Error(f"this package knows no outputs of kind {kind}; it is older than the library", "unsupported")
        found[output.name.decode()] = KINDS[kind](output, names[i])
    return found[""] if list(found) == [""] else found
