"""CAPL_ASSUME: capl chooses as on another machine, and says so; what cannot be assumed is refused.

SPDX-License-Identifier: Apache-2.0
"""
import json

from program import capl, check, in_empty_folder
from small import newest, read_json, write_recipe


def assumed(facts, *words):
    return capl(*words, env={"CAPL_ASSUME": facts})


def info():
    status, out, err = assumed("isa=portable,bf16=native", "info")
    check(status == 0 and "CAPL_ASSUME        isa=portable,bf16=native" in out, "info shows what is assumed", out + err)
    check("portable kernels" in out and "precision auto: bf16 (CAPL_ASSUME has bf16=native)" in out, "and what follows from it", out)
    check(json.loads(assumed("bf16=slow", "info", "--json")[1])["assume"] == "bf16=slow", "as JSON, too")


    status, out, err = capl("info", env={"CAPL_ASSUME": "cores=64,landlock=0,seccomp=none,gpu=none", "OMP_NUM_THREADS": ""})
    for line in ("  processors 64", "64 threads", "  off       CAPL_ASSUME has gpu=none", "  files     not guarded by the system: CAPL_ASSUME has landlock=0",
                 "  calls     not filtered: CAPL_ASSUME has seccomp=none", "  Lua       interpreted"):
        check(status == 0 and line in out, line.strip(), out + err)


def a_run():
    facts = "bf16=native,isa=portable,cores=3"
    write_recipe()
    status, out, err = capl("small.lua", "--steps=4", "--precision=auto", env={"CAPL_ASSUME": facts, "OMP_NUM_THREADS": ""})
    check(status == 0 and f"CAPL_ASSUME={facts}" in "".join(out.splitlines(True)[:2]), "a run shows it below its first line", out + err)
    check("CAPL_ASSUME has bf16=native" in out, "the header gives it as the reason of a choice", out)
    machine = read_json(newest() + "/settings.json")["machine"]
    check(machine["assume"] == facts and machine["processors"] == machine["threads"] == 3, "the run's facts have it", str(machine))
    status, out, err = assumed("isa=avx2", "small.lua", "--resume", "--steps=8")
    for what in ("instruction set: avx2, was portable", "compute threads: 1, was 3"):
        check(status == 1 and what in out + err or "this processor has" in err, "to resume as another machine: " + what, out + err)


def very_many_processors():
    """More than the engine has threads for: what it chooses is what it takes."""
    env = {"CAPL_ASSUME": "cores=1024"}
    status, out, err = capl("generate", "--out=images", "--n=12", "--length=2", env=env)
    check(status == 0, "generate with 1024 processors", out + err)
    status, out, err = capl("data", "check", "images", env=env)
    check(status == 0, "data check with 1024 processors", out + err)
    code = ('print(data.explore("images")) for batch in data.loader{source = data.captcha{count = 8}, batch = 4, role = "train", '
            'workers = capl.params{workers = "auto"}.workers}:epoch(1) do print(batch.image) end')
    with open("many.lua", "w", encoding="utf-8") as file:
        file.write("--- capl: 1\n" + code + "\n")
    status, out, err = capl("many.lua", env=env)
    check(status == 0 and "workers  256" in out, "explore and a loader with 1024 processors", out + err)


def mistakes():
    for facts, message in (("isa=sse", "isa is 'sse'; it is avx512, avx2 or portable"), ("core=2", "did you mean cores=…?"),
                           ("memory=2", "memory is '2'; it is a number of MB, GB or TB"), ("gpu", "gpu needs a value")):
        status, out, err = assumed(facts, "info")
        check(status == 1 and message in err and not out, f"{facts} is refused", out + err)


def main():
    info()
    a_run()
    very_many_processors()
    mistakes()


in_empty_folder(main)
