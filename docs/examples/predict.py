"""Reads images with a trained model, from Python: python3 predict.py MODEL.capl IMAGE.png...

SPDX-License-Identifier: Apache-2.0
"""
import sys

import capl

model = capl.load(sys.argv[1])
for path, reading in zip(sys.argv[2:], model(sys.argv[2:])):
    print(path, reading.text, f"{reading.confidence:.4f}", sep="\t")
