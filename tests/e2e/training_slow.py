"""The default job learns: a short run of recipes/captcha.lua reads most fresh captchas, also from PNG files.

SPDX-License-Identifier: Apache-2.0
"""
import re

from program import capl, check, in_empty_folder, recipe


def main():
    status, out, err = capl(recipe("captcha.lua"), "--samples=30000", "--test=4000", timeout=800, env={"OMP_NUM_THREADS": "2"})
    check(status == 0, "the run ends well", out + err)
    exact = float(re.search(r"final exact=([\d.]+)", out).group(1))
    files = float(re.search(r"PNG files: +exact ([\d.]+)", out).group(1))
    print(out)
    check(exact >= 90, "it reads at least 90 % of fresh captchas", out)
    check(abs(exact - files) < 8, "and as many of those in PNG files", out)


in_empty_folder(main)
