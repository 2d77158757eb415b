"""Collectives give on one to four ranks what the arithmetic in Lua gives, and refuse what cannot be right.

SPDX-License-Identifier: Apache-2.0
"""
import os
import shutil

from ranks import BUILD, CAPL, check, finish, in_empty_folder, mpirun, need_mpi, on_ranks, start, succeed, write

HERE = os.path.dirname(os.path.abspath(__file__))

# Every rank gets an error of both sides, and can go on.
REFUSED = """--- capl: 1
local world = capl.distributed()
local rank = world.rank
local function fails(code, pattern, fn)
  local fine, err = pcall(fn)
  if fine then error("no error: " .. pattern, 2) end
  if err.code ~= code or not err.message:match(pattern) then error(err.code .. ": " .. err.message, 2) end
end
local f32, view = capl.zeros(4), capl.zeros(4, 6):narrow(2, 1, 3)
fails("shape", "has gaps or repeats", function() world:all_reduce(view) end)
fails("shape", "has gaps or repeats", function() world:broadcast(capl.zeros(1, 5):expand(3, 5)) end)
fails("dtype", "u8 are not reduced", function() world:all_reduce(capl.zeros(3, {dtype = "u8"})) end)
fails("dtype", "mean of i32", function() world:all_reduce(capl.zeros(3, {dtype = "i32"}), {op = "mean"}) end)
fails("value", "no rank 7", function() world:broadcast(f32, {from = 7}) end)
fails("value", "no rank %-1", function() world:broadcast(f32, {from = -1}) end)
fails("value", "unknown op 'avg'", function() world:all_reduce(f32, {op = "avg"}) end)
fails("shape", "is not %d contiguous parts", function() world:reduce_scatter(capl.zeros(world.size + 1, 2)) end)
fails("shape", "scalar has no parts", function() world:reduce_scatter(capl.tensor(1)) end)
fails("shape", "no room for one more", function() world:all_gather(capl.zeros(1, 1, 1, 1, 1, 1)) end)
fails("state", "takes part in a gradient", function() world:all_reduce(capl.ones(2, {requires_grad = true})) end)
fails("value", "its world is missing", function() world.all_reduce(f32) end)
fails("value", "tensor expected, got nil", function() world:all_reduce() end)
fails("value", "whole number expected, got nil", function() world:exchange(f32) end)
fails("value", "a is a string, and metrics are numbers", function() world:sum{a = "1"} end)
fails("value", "strings of one line", function() world:sum{["a\\tb"] = 1} end)
if world.size > 1 then
  local n = rank == world.size - 1 and 5 or 4
  fails("shape", "rank 0 all_reduce %(sum%) of 4 x f32, rank %d all_reduce %(sum%) of 5 x f32", function()
    world:all_reduce(capl.zeros(n))
  end)
  fails("dtype", "4 x f32, rank 1 all_reduce %(sum%) of 4 x i32", function()
    world:all_reduce(capl.zeros(4, {dtype = rank == 1 and "i32" or "f32"}))
  end)
  fails("state", "rank 0 all_reduce %(max%) of 4 x f32, rank 1 broadcast of 16 bytes from rank 0", function()
    if rank == 0 then world:all_reduce(f32, {op = "max"}) else world:broadcast(f32) end
  end)
  fails("state", "from rank 0, rank 1 broadcast of 16 bytes from rank 1", function() world:broadcast(f32, {from = math.min(rank, 1)}) end)
  local work = world:all_reduce(capl.zeros(n), {async = true})
  local fine = world:all_reduce(capl.ones(2), {async = true})
  fails("shape", "do not make the same call", function() work:wait() end)
  if fine:wait():get(1) ~= world.size then error("a work behind a failed one") end
  world:all_reduce(capl.zeros(n), {async = true}) -- nobody waits for it
  collectgarbage()
  collectgarbage()
  fails("shape", "do not make the same call", function() world:all_gather_text("") end)
  if rank < 2 then
    fails("shape", "rank 0 exchange of 12 bytes, rank 1 exchange of 16 bytes", function()
      world:exchange(capl.zeros(3 + rank), 1 - rank)
    end)
  end
end
if world:all_reduce(capl.ones(2)):get(2) ~= world.size then error("after errors") end
world:print("refused")
"""

# A module of a program of its own, without the command that joins.
MODULE = """package.cpath = arg[1] .. "/?.so;" .. package.cpath
local capl = require "capl"
local world = capl.distributed()
local t = world:all_reduce(capl.full({3}, world.rank + 1))
world:print("sum " .. t:get(1))
"""


LAUNCHED = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}


def without_library():
    """A build that found no Open MPI."""
    os.mkdir("build")
    for name in os.listdir(BUILD):
        if name == "capl" or (name.startswith("libcapl") and ".so" in name and "mpi" not in name):
            shutil.copy(os.path.join(BUILD, name), "build", follow_symlinks=False)
    status, out, err = finish(start("build/capl", "error.lua", env=LAUNCHED), 30)
    check(status == 1 and "this build has no libcapl_mpi.so" in err and "apt install libopenmpi-dev openmpi-bin" in err, "without Open MPI there is the line that installs it", err)
    out = finish(start("build/capl", "info"), 30)[1]
    check("this build has no libcapl_mpi.so" in out and "Open MPI v" in finish(start(CAPL, "info"), 30)[1], "info tells both", out)


def alien_launcher():
    """Variables of a launcher whose MPI this is not."""
    status, out, err = finish(start(CAPL, "error.lua", env=LAUNCHED), 30)
    check(status == 1 and "the launcher reports rank 0 of 2, MPI reports rank 0 of 1" in err, "a launcher of another MPI is named", err)


def other_launchers():
    """Ranks on processors that something else than mpirun started."""
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    status, out, err = finish(start(CAPL, "error.lua", env=torchrun), 30)
    check(status == 1 and "torchrun started are on device cpu" in err
          and "capl error.lua --device=cpu --ranks=2, or mpirun -n 2 capl error.lua" in err, "torchrun on processors is told of mpirun", err)


def main():
    need_mpi()
    runtime = os.environ.get("CAPL_ASAN_RUNTIME")  # with sanitizers each start takes long: less of what is not about memory
    for n in (2,) if runtime else (1, 2, 3, 4):
        out = succeed(n, os.path.join(HERE, "collectives.lua"), what="collectives give what Lua's arithmetic gives")
        check(" checks" in out, "rank 0 alone says it", out)
    succeed(3, os.path.join(HERE, "collectives.lua"), env={"CAPL_MPI_PIECE": "192"}, what="tensors that take many calls of MPI")
    for n in (3,) if runtime else (1, 3):
        out = succeed(n, write("refused.lua", REFUSED), what="what cannot be right is refused on every rank")
        check("refused" in out.split("\n"), "all was refused", out)
    # The module's sanitizers have to be there before LuaJIT loads it.
    preload = [f"LD_PRELOAD={runtime}"] if runtime else []
    luajit = mpirun(2, "env", *preload, "luajit", write("module.lua", MODULE), BUILD)
    check(luajit[0] == 0 and luajit[1].strip() == "sum 3", "ranks of the Lua module leave by themselves", luajit)
    status, out, err = on_ranks(2, write("error.lua", "--- capl: 1\nlocal w = capl.distributed()\n"
                                         "if w.rank == 1 then error('enough') end\nw:barrier()\n"), timeout=30)
    check(status == 1 and "error.lua:3: enough" in err, "a rank's error is the status of the job", (status, out, err))
    if runtime:
        return
    without_library()
    alien_launcher()
    other_launchers()
    # Memory of other processes is out of reach in many containers.
    succeed(2, os.path.join(HERE, "collectives.lua"), env={"OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
            what="collectives without single copies")


in_empty_folder(main)
