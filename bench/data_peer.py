#!/usr/bin/env python3
"""What bench/data_bench.c does, as users of other packages do it today: the peers to beat.

usage: data_peer.py generate FONT            captcha (lepture): images of 160x60 px with letters of one font, one process
       data_peer.py augment VARIANT          Pillow and numpy: 32 images of 512x512x3 to f32, one process;
                                             VARIANT: plain, noise, mask or perspective
       data_peer.py folder DIR [augment]     PyTorch's DataLoader with Pillow: gray batches of 64 from PNG files
THREADS in the environment is the DataLoader's num_workers (2). Prints one line of JSON: step_ms per step of `images` images,
of processor time (all but folder) or wall time (folder), the median of several turns; versions. Status 3 says which package
is not installed. Levels stay H,W,C: nobody pays for a transposition that capl does not do.
SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import random
import resource
import statistics
import sys
import time

TURNS = 7
THREADS = int(os.environ.get("THREADS", "2"))


def need(name):
    """A package, or the end."""
    try:
        return __import__(name)
    except ImportError:
        print(f"{name} is not installed for {sys.executable}", file=sys.stderr)
        sys.exit(3)


def report(case, milliseconds, images, **versions):
    step = statistics.median(milliseconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"case": case, "threads": THREADS, "step_ms": step, "images": images,
                      "images_per_s": 1e3 * images / step, "peak_rss_bytes": peak, **versions}))


def turns(work, clock=time.process_time):
    """Milliseconds of work(), after one call that is not counted."""
    work()
    times = []
    for _ in range(TURNS):
        before = clock()
        work()
        times.append(1e3 * (clock() - before))
    return times


# ---- generation ---------------------------------------------------------------------------------------------------

def generate(font):
    need("PIL")
    need("captcha")
    import captcha
    from captcha.image import ImageCaptcha
    maker = ImageCaptcha(width=160, height=60, fonts=[font])
    letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def draw():
        for _ in range(64):
            maker.generate_image("".join(random.choice(letters) for _ in range(4)))

    report("generate", turns(draw), 64, captcha=getattr(captcha, "__version__", "?"))


# ---- augmentation -------------------------------------------------------------------------------------------------

def corners(side):
    """Where perspective takes the corners of the output from."""
    def far():
        return random.uniform(0, 0.1) * side
    return [(far(), far()), (side - far(), far()), (side - far(), side - far()), (far(), side - far())]


def homography(numpy, source, side):
    """The eight numbers of PIL's PERSPECTIVE that take the output's corners to these of the source."""
    rows, values = [], []
    for (u, v), (x, y) in zip(source, [(0, 0), (side, 0), (side, side), (0, side)]):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    return numpy.linalg.solve(numpy.array(rows, float), numpy.array(values, float))


def coloured(image):
    from PIL import ImageEnhance
    image = ImageEnhance.Brightness(image).enhance(random.uniform(0.8, 1.2))
    return ImageEnhance.Contrast(image).enhance(random.uniform(0.8, 1.2))


def moved(image, mask, variant):
    """The geometry of a variant: of the image bilinear, of its mask (or None) nearest."""
    import numpy
    from PIL import Image
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
        mask = mask and mask.transpose(Image.FLIP_LEFT_RIGHT)
    if variant == "perspective":
        numbers = homography(numpy, corners(image.width), image.width)
        return image.transform(image.size, Image.PERSPECTIVE, numbers, Image.BILINEAR), None
    angle = random.uniform(-15, 15)
    return image.rotate(angle, Image.BILINEAR), mask and mask.rotate(angle, Image.NEAREST)


def augment(variant):
    numpy = need("numpy")
    need("PIL")
    import PIL
    from PIL import Image
    count, side = 32, 512
    dice = numpy.random.default_rng(1)
    ramp = (numpy.arange(side * side * 3) // 8 + numpy.arange(side * side * 3) // 512).reshape(side, side, 3)
    images = [Image.fromarray(((ramp + dice.integers(0, 8, ramp.shape)) % 256).astype(numpy.uint8)) for _ in range(count)]
    masks = [Image.fromarray((ramp[:, :, 0] // 64 % 19).astype(numpy.uint8)) for _ in range(count)]
    batch = numpy.empty((count, side, side, 3), numpy.float32)
    classes = numpy.empty((count, side, side), numpy.uint8)
    scale = (1 / (255 * numpy.array([0.2, 0.2, 0.2]))).astype(numpy.float32)
    shift = (-numpy.array([0.5, 0.4, 0.3]) / 0.2).astype(numpy.float32)

    def make():
        for i in range(count):
            image, mask = moved(images[i], masks[i] if variant == "mask" else None, variant)
            levels = numpy.asarray(coloured(image), numpy.float32)
            if variant == "noise":
                levels = numpy.clip(levels + dice.standard_normal(levels.shape, numpy.float32) * random.uniform(5, 10), 0, 255)
            numpy.multiply(levels, scale, out=batch[i])
            batch[i] += shift
            if mask:
                classes[i] = numpy.asarray(mask)

    report("augment " + variant, turns(make), count, pillow=PIL.__version__)


# ---- folders ------------------------------------------------------------------------------------------------------

def folder(path, augmented):
    numpy, torch = need("numpy"), need("torch")
    need("PIL")
    import PIL
    from PIL import Image

    class Files(torch.utils.data.Dataset):
        def __init__(self):
            self.paths = sorted(glob.glob(path + "/*.png"))

        def __len__(self):
            return len(self.paths)

        def __getitem__(self, i):
            with Image.open(self.paths[i]) as file:
                image = file.convert("L")
            if augmented:
                image = coloured(image.rotate(random.uniform(-15, 15), Image.BILINEAR))
            levels = numpy.asarray(image, numpy.float32)
            return torch.from_numpy((levels - levels.mean()) / (levels.std() + 1e-6))

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(Files(), batch_size=64, shuffle=True, drop_last=True, num_workers=THREADS,
                                         persistent_workers=THREADS > 0)

    def epoch():
        for _ in loader:
            pass

    times = [one / len(loader) for one in turns(epoch, time.monotonic)]
    report("folder augment" if augmented else "folder", times, 64, torch=torch.__version__, pillow=PIL.__version__)


CASES = {"generate": generate, "augment": augment, "folder": lambda path, *more: folder(path, more == ("augment",))}

if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    random.seed(1)
    CASES[sys.argv[1]](*sys.argv[2:])
