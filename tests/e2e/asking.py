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
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "CAPL_SANDBOX", "CAPL_SANDBOX_WALL"):
        os.environ.pop(name, None)
    capl("generate", "--out=images", "--n=1")
    name = os.listdir("images")[0]
    put("set/list.tsv", f"{os.path.abspath('images')}/{name}\tABCD\n")
    put("shared/ask.lua", READER % ("set,images", "set"))


def refused_without_a_terminal():
    status, out, err = capl("shared/ask.lua")
    check(status == 1 and "read it" not in out, "nothing runs that nobody was asked about", out + err)
    wanted = f"to read {os.path.abspath('set')}, {os.path.abspath('images')}"
    check(f"needs more than a recipe gets unasked: {wanted}" in err and "--allow shared/ask.lua" in err, "it is said what and how", err)
    check(not os.path.exists("runs"), "and nothing is left", "")


def allowed():
    status, out, err = capl("--allow", "shared/ask.lua")
    check(status == 0 and "read it" in out and err.count("needs: to read") == 1, "--allow allows it, and shows it in one line", out + err)
    status, out, err = capl("shared/ask.lua")
    check(status == 1, "but does not keep that", out + err)
    check(capl("--trust", "shared/ask.lua")[0] == 0, "--trust asks for nothing")
    check(capl("shared/ask.lua", env={"CAPL_SANDBOX": "allow"})[2] == "", "what a capl starts asks no second time")
    check(capl("shared/ask.lua", "--help")[0] == 1 and "unasked" not in capl("shared/ask.lua", "--help")[2], "help asks for nothing")


def answer(letter):
    child = pexpect.spawn(CAPL, ["shared/ask.lua"], encoding="utf-8", timeout=20, env={**os.environ, "OMP_NUM_THREADS": "1"})
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
    check(not asked and status == 0 and "needs: to read" in said, "it is asked once, and shown again", said)
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
    check(capl("../shared/ask.lua")[0] == 1, "the same words in another folder are other folders")
    os.chdir("..")


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
    check(status == 1 and "to run for 34.7 days; to write up to 50 GB" in err, "more time and more files are asked for", err)
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
    secret = {"AWS_SECRET_ACCESS_KEY": "s3cret", "GITHUB_TOKEN": "s3cret", "SLURM_JWT": "s3cret", "DATABASE_URL": "s3cret"}
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
    put("sent/r.lua", '--- capl: 1\nprint(pcall(train.save, "runs/x", {a = 1}))\n')
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


def walls_as_this_kernel_has_them():
    put("shared/spy.lua", '--- capl: 1\nlocal ok, why = pcall(data.list, "/etc/passwd")\nprint(ok, why)\n')
    for wall in ("1", "0", "files", "calls"):
        status, out, err = capl("shared/spy.lua", env={"CAPL_SANDBOX_WALL": wall})
        check(status == 0 and out.startswith("false\t") and "may not read /etc/passwd" in out, f"walls {wall}: the first one holds", out + err)


def main():
    if not sys.platform.startswith("linux"):
        sys.exit(77)
    prepare()
    refused_without_a_terminal()
    allowed()
    asked_once_on_a_terminal()
    the_users_words_need_no_question()
    headers_that_say_nothing_sensible()
    a_home_is_not_given_away()
    the_worker_knows_little()
    lmdb_is_read_behind_the_wall()
    a_measured_run_has_a_folder()
    links_that_come_with_a_recipe()
    walls_as_this_kernel_has_them()
    no_empty_folder_is_left()


in_empty_folder(main)
