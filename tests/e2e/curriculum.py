"""A run with a curriculum: what it prints, draws and records; bench --augment of its loader.

SPDX-License-Identifier: Apache-2.0
"""
import json

from program import capl, check, in_empty_folder

RECIPE = """--- capl: 1
local p = capl.params { steps = 60, above = 0 }
local s = augment.schedule {
  {difficulty = {length = 1, noise = 0.2}, name = "short"},
  {from = {step = 20}, difficulty = {length = {1, 3}, noise = 1}, augment = {rotate = 5}, ramp = {steps = 10}},
  {from = {metric = "exact", above = p.above}, augment = {rotate = 9}},
  {from = {step = 1000}, augment = false},
}
local function loader(role, count)
  return data.loader {
    source = data.captcha {charset = "0-9", length = role == "val" and 3 or {1, 3}, width = 48, height = 24, count = count, fixed = role ~= "train"},
    role = role, batch = 10, workers = 1, augment = role == "train" and s or nil,
  }
end
local model = nn.Sequential {nn.AvgPool2d(6), nn.Flatten(), nn.Linear(32, 30)}
local result = train.fit {
  model = model, train = loader("train"), val = loader("val", 30), steps = p.steps, eval_every = 10,
  loss = function(output, batch)
    return nn.cross_entropy(output:view(-1, 10), batch.target:view(-1), {ignore_index = -1})
  end,
  optimizer = optim.Adam(model:parameters(), {lr = 0.01}),
}
print("stages: " .. #result.stages)
"""

TABLE = """curriculum of the train loader, an endless epoch:
  stage    from                                 comes in over     what changes
  1 short  the beginning                        at once           difficulty: length 1, charset 1, noise 0.2, warp 1
  2        step 20                              10 steps, linear  rotate ±5, difficulty: length 1 -> 1..3, noise 0.2 -> 1
  3        exact >= 0                           at once           rotate ±5 -> ±9
  4        step 1000 (the run ends at step 60)  at once           rotate ±9 -> off
"""


def run():
    status, out, err = capl("staged.lua")
    check(status == 0, "the run ends well", out + err)
    check(TABLE in out, "the table comes before training", out)
    for line in ("step 20: stage 2 begins", " starts stage 3 at step 34", "step 34: stage 3 begins", "stages: 3",
                 "report: curriculum: stage 1 from step 0, stage 2 from step 20, stage 3 from step 34, stage 4 never began; "
                 "runs/staged/curriculum.png"):
        check(line in out, line, out)
    with open("runs/staged/result.json", encoding="utf-8") as file:
        stages = json.load(file)["stages"]
    check([(s["stage"], s["step"]) for s in stages] == [(1, 0), (2, 20), (3, 34)], "result.json holds them", str(stages))
    with open("runs/staged/metrics.jsonl", encoding="utf-8") as file:
        events = [json.loads(line)["event"] for line in file if '"event"' in line]
    check(events == ["stage 1: short begins", "stage 2 begins", "stage 3 begins"], "metrics.jsonl has them", str(events))
    check(open("runs/staged/curriculum.png", "rb").read(4) == b"\x89PNG", "there is a picture", "")
    status, out, err = capl("staged.lua", "--above=2")
    check(status == 1 and "stage 3: exact never gets above 2" in err, "what can never be is said before", out + err)


def bench():
    status, out, err = capl("bench", "--augment", "staged.lua", "--steps=5", "--warmup=1")
    check(status == 0 and "10 x 1 x 24 x 48 u8 -> f32" in out and "endless" in out, "bench --augment", out + err)
    rows = [line.split()[0:2] for line in out.splitlines() if " thread" in line]
    check(rows == [["16", "threads"], ["8", "threads"], ["4", "threads"], ["1", "thread"]], "a row for each number of threads", out)
    check("\n  device " in out or "\n  cuda" in out, "and one for the device", out)
    status, out, err = capl("bench", "staged.lua", "--augment", "--steps=5", "--warmup=1", "--json")
    rows = json.loads(out)["rows"]
    check(len(rows) == 5 and all(row["samples_per_s"] > 100 for row in rows[:4]), "as JSON", out + err)
    check("why" in rows[4] or rows[4]["ms_per_batch"] > 0, "the device's row says why if it is empty", out)


def main():
    with open("staged.lua", "w", encoding="utf-8") as file:
        file.write(RECIPE)
    run()
    bench()


in_empty_folder(main)
