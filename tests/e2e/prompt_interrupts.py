"""Ctrl-C at a prompt: stops loops of all kinds at random moments, and leaves what there was.

How many loops: the first argument; the second is the seed of the moments (22), or random. A stop may take 50 ms; another
program may have had the processors meanwhile, so a slow one is tried again: it has to be fast once in six times.

SPDX-License-Identifier: Apache-2.0
"""
import random
import statistics
import sys
import time

from program import check, in_empty_folder
from prompt_session import Prompt

LIMIT = 0.05
LOOPS = {
    "while": "while true do end",
    "for": "for i = 1, 1e18 do end",
    "repeat": "repeat local a = 1 until false",
    "goto": "::top:: goto top",
    "sums": "local s = 0 for i = 1, 1e18 do s = s + i % 7 * 0.5 end",
    "tail calls": "local function f(n) return f(n + 1) end f(1)",
    "nested": "while true do for i = 1, 100 do for j = 1, 100 do local x = i * j end end end",
    "tables": "local t = {} for i = 1, 1e18 do t[i % 100 + 1] = {i} end",
    "texts": "local s for i = 1, 1e18 do s = 'a' .. i end",
    "pairs": "while true do for k, v in pairs(_G) do local x = v end end",
    "errors caught": "while true do pcall(error, 'x') end",
    "endless in pcall": "while true do pcall(function() while true do end end) end",
    "xpcall": "while true do xpcall(function() while true do end end, function(e) while true do end end) end",
    "coroutine": "coroutine.wrap(function() while true do end end)()",
    "coroutines": "while true do coroutine.wrap(function() coroutine.yield() end)() end",
    "sort": "while true do local t = {} for i = 1, 200 do t[i] = -i end table.sort(t, function(a, b) return a < b end) end",
    "sort's order": "table.sort({3, 1, 2}, function() while true do end end)",
    "gsub": "while true do ('abc'):gsub('.', function(c) return c .. c end) end",
    "gsub's function": "('abc'):gsub('.', function() while true do end end)",
    "metamethods": "local m = setmetatable({}, {__index = function() return 1 end}) while true do local x = m.a end",
    "loaded": "load('while true do end')()",
    "ops": "while true do keep = keep + 1 end",
    "scope": "capl.scope(function() while true do local y = keep * 2 end end)",
    "no_grad": "capl.no_grad(function() while true do local y = keep:sum() end end)",
    "training": "while true do local loss = (net(x) * net(x)):mean() opt:zero_grad() loss:backward() opt:step() end",
    "loader": "while true do for batch in loader:epoch(1) do local image = batch.image end end",
}
SETUP = """keep = capl.zeros(50)
net = nn.Sequential{nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)}
x = capl.randn(4, 8)
opt = optim.SGD(net:parameters(), {lr = 0.001})
loader = data.loader{source = data.captcha{count = 64}, batch = 4, role = "train"}"""


def stop(p, loop, moment):
    """Seconds from Ctrl-C to the next prompt."""
    p.child.sendline(loop)
    p.child.expect_exact("\r\n")
    time.sleep(moment)
    start = time.perf_counter()
    p.child.sendintr()
    p.child.expect_exact("interrupted")
    p.wait()
    return time.perf_counter() - start


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seed = sys.argv[2] if len(sys.argv) > 2 else "22"
    seed = random.randrange(10**6) if seed == "random" else int(seed)
    rng = random.Random(seed)
    p = Prompt(NO_COLOR="1")
    p.child.delaybeforesend = None
    for line in SETUP.split("\n"):
        p.ask(line)
    p.ask("net(x):sum():backward() opt:step()")  # what is opened at first use is open now
    names = list(LOOPS)
    latencies, again = [], 0
    for i in range(n):
        name = names[i % len(names)]
        moment = rng.uniform(0, 0.06)
        took = stop(p, LOOPS[name], moment)
        latencies.append(took)
        for _ in range(5):
            if took < LIMIT:
                break
            again += 1
            took = min(took, stop(p, LOOPS[name], moment))
        check(took < LIMIT, f"{name} stops within 50 ms (seed {seed}, loop {i})" if took >= LIMIT else f"{name} stops", f"{took * 1000:.1f} ms")
    print(f"{n} of {n} loops stopped; median {statistics.median(latencies) * 1000:.1f} ms, greatest {max(latencies) * 1000:.1f} ms, "
          f"{again} tried again")
    text = p.ask("keep:numel(), net(x):sum():item() == net(x):sum():item()")
    check("50" in text and "true" in text, "tensors and networks are as they were", text)
    check(p.leave() == 0, "the prompt lives on", "")


if __name__ == "__main__":
    in_empty_folder(main)
