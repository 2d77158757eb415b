"""A thousand loops of all kinds, each stopped by Ctrl-C at a random moment.

SPDX-License-Identifier: Apache-2.0
"""
import sys

import prompt_interrupts
from program import in_empty_folder

sys.argv[1:] = ["1000"]
in_empty_folder(prompt_interrupts.main)
