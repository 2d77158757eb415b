"""What a recipe from somewhere else gets, what it has to ask for, and what its process can see of the user.

SPDX-License-Identifier: Apache-2.0
"""
import glob
import os
import re
import shutil
import stat
import subprocess
import sys
import time

import pexpect

from program import CAPL, capl, check, in_empty_folder
from small import RECIPE

READER = """--- capl: 1
--- needs: read=%s
local list = data.list("%s/list.tsv")
print("read it")
"""
SLOW = """--- capl: 1
local t = capl.clock() + 2 while capl.clock() < t do end
"""


def put(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def prepare():
    """The recipe lies in a folder, what it wants to read beside that."""
    os.environ["HOME"] = os.path.abspath("home")
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "CAPL_SANDBOX", "CAPL_ASSUME"):
        os.environ.pop(name, None)
    capl("generate", "--out=images", "--n=1")
    name = os.listdir("images")[0]
    put("set/list.tsv", f"{os.path.abspath('images')}/{name}\tABCD\n")
    put("shared/ask.lua", READER % ("set,images", "set"))


def refused_without_a_terminal():
    status, out, err = capl("shared/ask.lua")
    check(status == 1 and "read it" not in out, "nothing runs that nobody was asked about", out + err)
    wanted = f"needs:\n  to read {os.path.abspath('set')}\n  to read {os.path.abspath('images')}\n"
    check(wanted in err and "needs more than a recipe gets unasked" in err and "--allow shared/ask.lua" in err, "it is said what and how", err)
    check(not os.path.exists("runs"), "and nothing is left", "")


def allowed():
    status, out, err = capl("--allow", "shared/ask.lua")
    check(status == 0 and "read it" in out and err.count("needs:\n  to read") == 1, "--allow allows it, and shows it", out + err)
    status, out, err = capl("shared/ask.lua")
    check(status == 1, "but does not keep that", out + err)
    check(capl("--trust", "shared/ask.lua")[0] == 0, "--trust asks for nothing")
    check(capl("shared/ask.lua", env={"CAPL_SANDBOX": "allow"})[2] == "", "what a capl starts asks no second time")
    check(capl("shared/ask.lua", "--help")[0] == 1 and "unasked" not in capl("shared/ask.lua", "--help")[2], "help asks for nothing")


def answer(letter, recipe="shared/ask.lua"):
    child = pexpect.spawn(CAPL, [recipe], encoding="utf-8", timeout=20, env={**os.environ, "OMP_NUM_THREADS": "1"})
    asked = child.expect([r"\[y/N\] ", pexpect.EOF]) == 0
    said = child.before
    if asked:
        child.sendline(letter)
        child.expect(pexpect.EOF)
        said += child.before
    child.close()
    return asked, child.exitstatus, said


def asked_once_on_a_terminal():
    asked, status, said = answer("n")
    check(asked and status == 1 and "nothing was run" in said, "no is no", said)
    asked, status, said = answer("y")
    check(asked and status == 0 and "read it" in said, "yes is yes", said)
    asked, status, said = answer("y")
    check(not asked and status == 0 and "needs:\r\n  to read" in said, "it is asked once, and shown again", said)
    check(capl("shared/ask.lua")[0] == 0, "the answer holds without a terminal too")
    kept = "home/.local/state/capl/allowed"
    check(stat.S_IMODE(os.stat(kept).st_mode) == 0o600, "nobody else reads or writes the answers", oct(os.stat(kept).st_mode))
    with open(kept, "a", encoding="utf-8") as file:
        file.write("half a line")
    put("shared/ask.lua", READER % ("set,images", "set") + "-- other\n")
    check(answer("y")[0] and capl("shared/ask.lua")[0] == 0, "an answer is kept behind a line that was cut short")
    with open(kept, "a", encoding="utf-8") as file:
        file.write("x" * 63 + "\n" + ("y" * 63 + "\n") * 4200)
    put("shared/ask.lua", READER % ("set,images", "set") + "-- third\n")
    check(answer("y")[0] and capl("shared/ask.lua")[0] == 0, "and where there are very many")
    check(os.path.getsize(kept) < 1 << 18, "of which the former half is forgotten", str(os.path.getsize(kept)))
    put("shared/ask.lua", READER % ("set,images", "set"))
    check(answer("y")[0], "it is asked again for what was forgotten")
    put("shared/ask.lua", READER % ("set,images", "set") + "-- changed\n")
    check(capl("shared/ask.lua")[0] == 1, "another text is another recipe")
    put("shared/ask.lua", READER % ("set,images", "set"))
    os.makedirs("elsewhere/set")
    os.chdir("elsewhere")
    status, out, err = capl("../shared/ask.lua")
    check(status == 1 and f"  to read {os.getcwd()}/set\n" in err, "the same words in another folder are other folders", out + err)
    out = capl("recipe", "info", "../shared/ask.lua")[1]
    check("reads set, images (from the working folder) besides its own folder" in out, "as the page of a recipe says", out)
    os.chdir("..")


def all_that_is_granted_is_shown():
    """Links of a recipe lead to long paths; what stands behind them is granted, too."""
    put("private/keys/list.tsv", "")
    folders = [os.path.abspath("long/" + "/".join([letter * 200, letter * 200])) for letter in "abcdefghijklmnopqrst"]
    put("sly/see.lua", "")
    os.symlink("../private/keys", "sly/k")
    for i, folder in enumerate(folders):
        os.makedirs(folder)
        os.symlink(folder, f"sly/l{i}")
    text = '--- capl: 1\n--- needs: read=%s,sly/k\nlocal ok, why = pcall(data.list, "sly/k/list.tsv")\nprint("END", why)\n'
    put("sly/see.lua", text % ",".join(f"sly/l{i}" for i in range(6)))
    asked, status, said = answer("y", "sly/see.lua")
    shown = re.sub(r"\s", "", said) # a terminal breaks lines
    check(asked and all(f"toread{path}" in shown for path in (*folders[:6], os.path.abspath("private/keys"))),
          "a question names every folder, whole", said)
    status, out, err = capl("sly/see.lua")
    check(status == 0 and "may not read" not in out, "the answer is kept", out + err)
    os.remove("sly/k")
    put("private/other/list.tsv", "")
    os.symlink("../private/other", "sly/k")
    status, out, err = capl("sly/see.lua")
    check(status == 1 and "END" not in out and "/private/other\n" in err, "a link that leads elsewhere by now is asked about again", out + err)
    put("sly/see.lua", text % ",".join(f"sly/l{i}" for i in range(20)))
    for words in ((), ("--allow", )):
        status, out, err = capl(*words, "sly/see.lua")
        check(status == 1 and "END" not in out and "more than can be shown" in err, "what no question can show is refused", out + err)


def the_users_words_need_no_question():
    put("shared/word.lua", '--- capl: 1\nlocal p = capl.params{data = "x"}\nprint(data.list(p.data) ~= nil)\n')
    status, out, err = capl("shared/word.lua", "--data=set/list.tsv,images")
    check("may not read" not in err or "set/list.tsv,images" in err, "a list of places is read as one", out + err)
    status, out, err = capl("shared/word.lua", "--data=/etc/passwd")
    check(status == 1 and "may not read" not in err, "what the user names may be read", out + err)
    status, out, err = capl("shared/word.lua")
    check(status == 1 and "may not read" in err, "what nobody names may not", out + err)
    a_list_is_of_the_images_around_it()


def a_list_is_of_the_images_around_it():
    for place in ("around", "home"):
        put(f"{place}/near.csv", "path,label\none.png,ABCD\n")
        shutil.copy(glob.glob("images/*.png")[0], f"{place}/one.png")
    status, out, err = capl("shared/word.lua", "--data=around/near.csv")
    check(status == 0 and "true" in out, "images around a list that the user names may be read", out + err)
    for far, what in (("set/list.tsv", "what a list names elsewhere"), ("home/near.csv", "a home that a list lies in")):
        status, out, err = capl("shared/word.lua", f"--data={far}")
        check(status == 1 and "may not read" in err, f"{what} may not be read", out + err)
    os.remove("home/near.csv")
    os.remove("home/one.png")


def no_empty_folder_is_left():
    left = os.listdir("home/.cache/capl/recipes")
    check(left == [], "a recipe that keeps nothing leaves no cache behind", left)


def headers_that_say_nothing_sensible():
    for text, wanted in (("memory=8", "memory is an amount such as 500MB"), ("output=lots", "output is an amount"), ("memory=1GB memory=2GB", "twice")):
        put("shared/odd.lua", f"--- capl: 1\n--- needs: {text}\n")
        status, _, err = capl("shared/odd.lua")
        check(status == 1 and wanted in err, f"needs: {text}", err)
    put("shared/long.lua", "--- capl: 1\n--- needs: minutes=50000 output=50GB\n")
    status, _, err = capl("shared/long.lua")
    check(status == 1 and "  to run for 34.7 days\n  to write up to 50 GB\n" in err, "more time and more files are asked for", err)
    put("shared/less.lua", "--- capl: 1\n--- needs: minutes=10 memory=2GB output=1GB\nprint('less')\n")
    check(capl("shared/less.lua")[1] == "less\n", "less than usual is nobody's question")


def a_home_is_not_given_away():
    put("home/mine.lua", '--- capl: 1\nlocal ok, why = pcall(data.list, "home/diary.txt")\nprint(ok, require "beside")\n')
    put("home/beside.lua", "return 5\n")
    put("home/diary.txt", "dear diary\n")
    status, out, err = capl("home/mine.lua")
    check(status == 0 and out.startswith("false\t5"), "a recipe in the home reads no more of it than recipes", out + err)
    put("shared/draw.lua", "--- capl: 1\n")
    os.chdir("home")
    status, out, err = capl("preview", "../shared/draw.lua")
    check(status == 1 and "preview.png would be written into" in err, "and no picture goes into it by itself", out + err)
    os.chdir("..")


def of_process(pid, name):
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()


def worker_of(pid):
    """The last process below one that has its walls."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and int(re.search(rb"PPid:\s*(\d+)", of_process(name, "status"))[1]) == pid:
                    if b"Seccomp:\t2" in of_process(name, "status"):
                        return name
            except OSError:
                continue
        time.sleep(0.02)
    return None


def the_worker_knows_little():
    if "filtered by seccomp" not in capl("info")[1]:
        print("ok (no filter of calls here: skipped)")
        return
    put("shared/slow.lua", SLOW)
    secret = {"AWS_SECRET_ACCESS_KEY": "s3cret", "GITHUB_TOKEN": "s3cret", "SLURM_JWT": "s3cret", f"SLURM_{'X' * 300}_TOKEN": "s3cret", "DATABASE_URL": "s3cret"}
    with open("set/list.tsv", encoding="utf-8") as open_file:
        os.set_inheritable(open_file.fileno(), True)
        child = subprocess.Popen([CAPL, "shared/slow.lua"], env={**os.environ, **secret}, close_fds=False)
        worker = worker_of(child.pid)
        check(worker is not None, "the worker stands behind the filter of calls")
        environment, status = of_process(worker, "environ"), of_process(worker, "status")
        links = [os.readlink(f"/proc/{worker}/fd/{fd}") for fd in os.listdir(f"/proc/{worker}/fd")]
        child.wait(20)
    check(b"s3cret" not in environment and b"HOME=" in environment, "passwords are gone from its environment, HOME is not", environment)
    check(b"NoNewPrivs:\t1" in status, "it gains no privileges", status)
    check(not any("list.tsv" in link for link in links), "what the shell had open is closed", links)


def temporaries_and_sockets_are_out_of_reach():
    """Of another recipe's temporary folder, and of where the runs of the user wait for capl attach."""
    sockets = f"/tmp/capl-{os.geteuid()}"
    os.makedirs("t", exist_ok=True)
    put("shared/slow.lua", SLOW)
    put("shared/reach.lua", """--- capl: 1
local p = capl.params{own = "x", sockets = "x"}
local image = capl.zeros({3, 4, 4}, {dtype = "u8"})
print("reads", pcall(data.read_csv, p.own:gsub("^@", "") .. "/x.csv"))
print("writes", pcall(data.png_write, p.own:gsub("^@", "") .. "/x.png", image))
print("replaces", pcall(data.png_write, p.sockets:gsub("^@", "") .. "/walls-test.png", image))
""")
    child = subprocess.Popen([CAPL, "shared/slow.lua"], env={**os.environ, "TMPDIR": os.path.abspath("t")}, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 20
    while not glob.glob("t/capl-*") and time.monotonic() < until:
        time.sleep(0.02)
    (other, ) = glob.glob(os.path.abspath("t/capl-*"))
    put(f"{other}/x.csv", "a,b\n1,2\n")
    for base in (os.path.abspath("t"), "/tmp"):
        out = capl("shared/reach.lua", f"--own=@{other}", f"--sockets=@{sockets}", env={"TMPDIR": base})[1]
        said = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
        for verb, what in (("reads", "another recipe's temporaries are not read"), ("writes", "nor written"),
                           ("replaces", "the sockets of capl attach lie where no recipe writes")):
            check(said.get(verb, "").startswith("false") and "this recipe may not" in said[verb], f"TMPDIR={base}: {what}", out)
    child.wait(20)
    check(not os.listdir("t"), "a temporary folder goes with its job, whatever lies in it", os.listdir("t"))
    child = subprocess.Popen([CAPL, "shared/slow.lua"], env={**os.environ, "TMPDIR": os.path.abspath("t")}, stdout=subprocess.DEVNULL)
    while not glob.glob("t/capl-*") and child.poll() is None:
        time.sleep(0.02)
    held = os.listdir("t")
    os.mkdir("t/capl-abcdef")
    capl("shared/less.lua", env={"TMPDIR": os.path.abspath("t")})
    check(held == os.listdir("t"), "what a killed job has left is removed by the next one, what a job holds is not", os.listdir("t"))
    child.wait(20)
    if os.path.exists(sockets + "/walls-test.png"):
        os.remove(sockets + "/walls-test.png")
    status, _, err = capl("preview", "shared/reach.lua", f"--out={sockets}/x.png")
    check(status == 1 and "no recipe may write to" in err, "not even where the user says so", err)


def lmdb_is_read_behind_the_wall():
    if capl("data", "pack", "images", "--out=db")[0] != 0:
        return
    put("shared/db.lua", '--- capl: 1\nlocal p = capl.params{data = "x"}\nlocal s = data.lmdb(p.data)\nprint("read it")\n')
    status, out, err = capl("shared/db.lua", "--data=db")
    check(status == 0 and "read it" in out, "the supervisor starts the reader of LMDB files", out + err)
    status, out, err = capl("shared/db.lua", "--data=nowhere")
    check(status == 1 and "nowhere" in err and "No such file" in err, "and a missing one is missing", out + err)


def a_measured_run_has_a_folder():
    put("shared/short.lua", RECIPE.replace('steps = "auto"', "steps = 2"))
    status, out, err = capl("bench", "shared/short.lua", "--logging", "--json")
    check(status == 0 and os.path.isdir("runs/short"), "capl bench --logging leaves its run in runs/, which was not there", out + err)


def links_that_come_with_a_recipe():
    """An archive may hold runs -> ~/.ssh beside its recipe."""
    put("sent/r.lua", '--- capl: 1\nprint(pcall(train.save, capl.run_folder() .. "/x.capl", {a = 1}))\n')
    put("of_the_user/key", "1")
    os.symlink("../of_the_user", "sent/runs")
    os.symlink("../of_the_user/key", "sent/preview.png")
    os.chdir("sent")
    status, out, err = capl("r.lua")
    check(status == 1 and "runs is a link that leads to" in err and os.listdir("../of_the_user") == ["key"], "runs is no way out", out + err)
    os.remove("runs")
    status, out, err = capl("preview", "r.lua")
    check(status == 1 and "preview.png is a link" in err, "nor is preview.png", out + err)
    os.mkdir("here")
    os.symlink("here", "runs")
    status, out, err = capl("r.lua")
    check(status == 0 and out.startswith("true"), "a link within the folder is one's own", out + err)
    os.chdir("..")


def other_runs_are_out_of_reach():
    """A recipe writes to the folder of its own run, and to no other run's: not by itself, and not as a trial or a run that goes on."""
    os.makedirs("several")
    os.chdir("several")
    put("train.lua", RECIPE.replace('steps = "auto"', "steps = 2"))
    check(capl("train.lua")[0] == 0, "a run to spoil")
    put("spoil.lua", """--- capl: 1
capl.params{}
for _, path in ipairs{"runs/train/best.capl/weights.safetensors", "runs/train/state.capl", "runs/sweep/trial-001/x.capl", "runs/new/x.capl"} do
  print("spoils", pcall(train.save, path, {a = 1}))
end
print("spoils", pcall(capl.io.save, "runs/train/checkpoints/step-000002.capl", {a = capl.ones(1)}))
print("reads", pcall(capl.io.load, "runs/train/best.capl/weights.safetensors"))
print("own", pcall(train.save, capl.run_folder() .. "/x.capl", {a = 1}), capl.run_folder())
""")
    put("runs/sweep/trial-002/here", "")
    before = files_below("runs/train")
    trial = {"CAPL_RUN_FOLDER": "runs/sweep/trial-002"}
    for words, env, own in (((), {}, "runs/spoil"), ((), trial, "runs/sweep/trial-002")):
        out = capl("spoil.lua", *words, env=env)[1]
        check(out.count("spoils\tfalse\t") == 5 and out.count("this recipe may not write") == 5, "no other run is written to", out)
        check("reads\ttrue" in out and f"own\ttrue\t{own}" in out, "it is read, and its own is written", out)
    check(files_below("runs/train") == before and os.listdir("runs/sweep") == ["trial-002"] and not os.path.exists("runs/new"),
          "nothing of another run has changed", files_below("runs"))
    status, out, err = capl("train.lua", "--resume", "--steps=4")
    check(status == 0 and "runs/train/best.capl" in out and not os.path.exists("runs/train-2"), "a run goes on in its own folder", out + err)
    shutil.copytree("runs/train", "elsewhere")
    status, out, err = capl("train.lua", "--resume=elsewhere", "--steps=6")
    check(status == 0 and "elsewhere/best.capl" in out, "and where the user says it lies", out + err)
    links_among_runs()
    os.chdir("..")


def links_among_runs():
    shutil.rmtree("runs")
    os.makedirs("runs")
    os.symlink("../elsewhere", "runs/train")
    before = files_below("elsewhere")
    status, out, err = capl("train.lua", "--resume", "--steps=8")
    check(status == 1 and "runs/train is a link that leads to" in err and files_below("elsewhere") == before,
          "a link among the runs is no run that goes on by itself", out + err)
    os.remove("runs/train")
    put("quiet.lua", "--- capl: 1\nprint('quiet')\n")
    put("asks.lua", "--- capl: 1\nprint(capl.run_folder())\n")
    check(capl("quiet.lua")[1] == "quiet\n" and not os.path.exists("runs"), "a recipe that writes nothing leaves no folder")
    out = capl("check", "asks.lua")[1]
    check(not os.path.exists("runs"), "nor does one that is only checked", out)
    os.chmod(".", 0o555)
    status, out, err = capl("quiet.lua")
    os.chmod(".", 0o755)
    check(status == 0 and out == "quiet\n", "and where nothing can be written it runs all the same", out + err)


def files_below(folder):
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                found[os.path.join(place, name)] = file.read()
    return found


def walls_as_this_kernel_has_them():
    put("shared/spy.lua", '--- capl: 1\nlocal ok, why = pcall(data.list, "/etc/passwd")\nprint(ok, why)\n')
    for facts in ("", "landlock=0,seccomp=none", "seccomp=none", "landlock=0", "landlock=1"):
        status, out, err = capl("shared/spy.lua", env={"CAPL_ASSUME": facts})
        if facts == "landlock=1" and "this kernel has version" in err: # or none
            continue
        check(status == 0 and "false\t" in out and "may not read /etc/passwd" in out, f"the checks of capl itself hold with {facts}", out + err)


def lists_of_engines_are_written():
    """CAPL_DNN_PLANS is the user's word: the GPU backend appends to it from behind the wall."""
    path = os.path.abspath("lists/plans.jsonl")
    put("shared/lists.lua", f'--- capl: 1\ncapl.io.save("{path}", {{x = capl.ones(1)}})\nprint("written")\n')
    os.makedirs("lists")
    status, out, err = capl("shared/lists.lua")
    check(status == 1 and "may not write" in err, "without that word nobody writes there", out + err)
    status, out, err = capl("shared/lists.lua", env={"CAPL_DNN_PLANS": path})
    check(os.path.exists(path), "the list is made before the wall stands", out + err)


def main():
    if not sys.platform.startswith("linux"):
        sys.exit(77)
    prepare()
    refused_without_a_terminal()
    allowed()
    asked_once_on_a_terminal()
    all_that_is_granted_is_shown()
    the_users_words_need_no_question()
    headers_that_say_nothing_sensible()
    a_home_is_not_given_away()
    the_worker_knows_little()
    temporaries_and_sockets_are_out_of_reach()
    lmdb_is_read_behind_the_wall()
    a_measured_run_has_a_folder()
    links_that_come_with_a_recipe()
    other_runs_are_out_of_reach()
    walls_as_this_kernel_has_them()
    lists_of_engines_are_written()
    no_empty_folder_is_left()


in_empty_folder(main)
