"""capl bench --ab: variants turn by turn, ratios with intervals that can be computed again, and mistakes that name the variant.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import json
import os
import statistics
from math import comb

from program import capl, check, in_empty_folder

RECIPE = """--- capl: 1
-- Steps as long as a setting says.
local p = capl.params {
  work = 1, -- products of a step
  steps = 100000,
  warmup = 3, -- has the name of an option of bench
  idle = 1, -- read by nobody
}
if p.warmup > 9 then error("too warm") end
local model = nn.Linear(64, 64, {bias = false})
capl.model(model, {output = "numbers"})
local opt = optim.SGD(model:parameters(), {lr = 1e-3})
local images = data.loader {
  source = data.captcha {charset = "01", length = 1, width = 16, height = 16, count = 64, fixed = true},
  role = "train", batch = 4, workers = 1,
}
local steps = 0
while steps < p.steps do
  for batch in images:epoch(1) do
    local y = batch.image:view(4, 256):narrow(2, 1, 64)
    for _ = 1, p.work do y = model(y) end
    opt:backward_step((y * y):mean())
    opt:zero_grad()
    steps = steps + 1
    if steps == p.steps then break end
  end
end
"""


def compare(*words):
    status, out, err = capl("bench", "variants.lua", *words, "--json")
    check(status == 0, "capl bench " + " ".join(words), out + err)
    return json.loads(out)


def interval(ratios, miss):
    """The narrowest pair of ratios between which the median lies but for a chance of miss; None: there is none."""
    n, k = len(ratios), 0
    while 2 * sum(comb(n, i) for i in range(k + 1)) / 2 ** n <= miss:
        k += 1
    return (sorted(ratios)[k - 1], sorted(ratios)[n - k]) if k else None


def close(a, b):
    return abs(a - b) <= 1e-6 * abs(b)


def metrics():
    # The longer steps outlast what the system gives others in between; 4 of 15 rounds may be spoilt all the same.
    found = compare("--ab", "work=1,400", "--rounds=15", "--steps=1", "--warmup=2")
    a, b = found["variants"]
    check((a["name"], b["name"], len(a["rounds"]), len(b["rounds"])) == ("work=1", "work=400", 15, 15), "variants and rounds", str(found))
    check(a["precision_counts"]["fp32"] > 0 and b["precision_counts"]["fp32"] > 350 * a["precision_counts"]["fp32"] / 2, "products that really ran", str(found))
    ratios = [y / x for x, y in zip(a["rounds"], b["rounds"])]
    low, high = interval(ratios, 0.05)
    check(close(b["ratio"]["median"], statistics.median(ratios)) and close(b["ratio"]["low"], low) and close(b["ratio"]["high"], high),
          "the ratio and its interval are those of the rounds", str(b["ratio"]))
    check(b["ratio"]["verdict"] == "slower" and high < 1 and "ratio" not in a, "a real difference is seen", str(b["ratio"]))
    for variant in found["variants"]:
        check(0 <= variant["wait"] <= 1 and 0 < variant["cpu"] <= 1 and variant["rss"] > 1e6 and variant["tensor_bytes"] > 0 and
              variant["step_ms"]["low"] <= variant["step_ms"]["median"] <= variant["step_ms"]["high"], "load, memory and times of a variant", str(variant))
        check("power_w" not in variant and "estimated" not in variant, "what is not known is absent", str(variant))


def combinations():
    found = compare("--ab=work=1,2", "--ab", "warmup=3,4", "--rounds=2", "--steps=1", "--warmup=1")
    check([variant["name"] for variant in found["variants"]] ==
          ["work=1 warmup=3", "work=1 warmup=4", "work=2 warmup=3", "work=2 warmup=4"], "every combination", str(found))
    check(all(variant["ratio"]["verdict"] == "too few rounds" and "low" not in variant["ratio"] for variant in found["variants"][1:]),
          "two rounds prove nothing", str(found["variants"][1]))
    status, out, err = capl("bench", "variants.lua", "--ab", "work=1,1.0", "--rounds=1", "--steps=1", "--warmup=1")
    check(status == 0 and "note: work=1 and work=1.0 run with the same settings" in out, "equal variants are reported", out + err)
    check("1 round of 1 step, turn by turn" in out and "6 rounds and more give intervals" in out and "everything is measured" in out,
          "a table for people", out)


def one_variant():
    found = json.loads(capl("bench", "variants.lua", "--steps=4", "--warmup=1", "--json")[1])
    check(0 <= found["hardware"]["wait"] <= 1 and 0 < found["hardware"]["cpu"] <= 1 and "power_w" not in found["hardware"],
          "plain bench shows load and waiting, too", str(found))
    status, out, err = capl("bench", "variants.lua", "--steps=4", "--warmup=1")
    check("waits for data" in out and "% busy" in out, "in its lines", out + err)


def mistakes():
    for words, message in (
            (["idle=1,2"], "variants.lua does not read its setting idle in its first steps, so all variants would be the same"),
            (["warmup=3,30"], "variant warmup=30: variants.lua:9: too warm"),
            (["wrk=1,2"], "variant wrk=1: variants.lua:3: unknown setting --wrk; did you mean --work?"),
            (["steps=100,7"], "variant steps=7: variants.lua ended after 7 steps, before all rounds were measured"),
            (["work=1"], "--ab work=1 has one value; there is nothing to compare it with"),
            (["work=1,,2"], "--ab work=1,,2 has an empty value"),
            (["work=1,1"], "--ab work=1,1 has the value 1 twice"),
            (["work"], "--ab takes KEY=A,B, not 'work'"),
            (["work=1,2", "--work=3"], "work is given twice: --work=3 and --ab work=1,2"),
            (["work=1,2,3,4,5", "--ab", "warmup=1,2,3,4"], "these are 20 variants, and at most 16 can be compared"),
            (["work=1,2", "--rounds=0"], "--rounds must be a whole number from 1 to 1000, got 0"),
            (["work=1,2", "--ops"], "--ab compares whole steps: leave --ops, --augment and --logging out")):
        status, out, err = capl("bench", "variants.lua", "--steps=2", "--warmup=1", "--ab", *words)
        check(status == 1 and err.startswith(message) and out == "", message, out + err)


def main():
    os.environ["TMPDIR"] = os.getcwd()
    with open("variants.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    metrics()
    combinations()
    one_variant()
    mistakes()
    check(glob.glob("capl-bench*") == [] and not os.path.exists("runs"), "nothing is left behind", str(os.listdir(".")))


in_empty_folder(main)
