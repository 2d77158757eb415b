"""What capl says of itself: `capl docs`, ?name at the prompt, and the docstrings behind both.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import resource

from program import capl, check, in_empty_folder

# Names that a page would say nothing about: none.
WITHOUT_DOCSTRING = set()
WITHOUT_CALL = set()


def records():
    status, out, err = capl("docs", "--json")
    check(status == 0, "the index of docstrings can be had as JSON", err)
    return json.loads(out)


def completeness(known):
    names = {r["name"] for r in known}
    check(len(names) >= 690, "every library and object is in the index", str(len(names)))
    for name in ("nn.Conv2d", "capl.zeros", "optim.AdamW", "data.folder", "train.fit", "plot.lines", "augment.schedule", "tensor:sum",
                 "module:parameters", "loader:epoch", "optimizer:backward_step", "world:all_reduce", "capl.op.conv2d", "tensor.shape"):
        check(name in names, f"{name} is one of them")
    silent = {r["name"] for r in known if not r.get("text")}
    check(silent == WITHOUT_DOCSTRING, "every public name has a docstring", str(sorted(silent ^ WITHOUT_DOCSTRING)))
    bare = {r["name"] for r in known if r["kind"] in ("function", "class", "method") and not re.search(r"[({]", r["signature"])}
    check(bare == WITHOUT_CALL, "every function says how it is called", str(sorted(bare ^ WITHOUT_CALL)))
    check(all(r["text"].count("\n") < 60 for r in known), "no docstring took a whole file for its own")


def examples(known):
    """Each example, with what it says that comes out, is computed by the program itself."""
    lines, count, seen = [], 0, set()
    for record in known:
        for example in record.get("examples") or []:
            code, arrow, value = example.partition("-->")
            if not arrow or "\n" in example or example in seen:
                continue
            seen.add(example)
            count += 1
            code = json.dumps(re.sub(r"^return ", "", code.strip()), ensure_ascii=False)
            lines.append(f"do local f = loadstring('return ' .. {code}) or loadstring({code}); local ok, v = pcall(f); "
                         f"print({json.dumps(record['name'])}, {json.dumps(value.strip())}, ok and tostring(v) or 'ERROR ' .. tostring(v)) end")
    status, out, err = capl(text="\n".join(lines) + "\n")
    check(status == 0 and count >= 220, f"{count} examples run", err)
    wrong = []
    for line in out.splitlines():
        name, wanted, given = line.split("\t")
        try:
            fits = abs(float(wanted) - float(given)) <= 1e-6 * max(1, abs(float(wanted)))
        except ValueError:
            fits = wanted == given
        if not fits:
            wrong.append(f"the example of {name} gives {wanted}, not {given}")
    check(not wrong and len(out.splitlines()) == count, "and give what they say", "\n".join(wrong) or out[-500:])


def prompt():
    def ask(line):
        return capl(text=line + "\n")[1]
    page = ask("?nn.Conv2d")
    for words in ("nn.Conv2d(in_channels, out_channels, kernel_size", "x (N, Cin, H, W)", "padding", "= 0", "nn.Conv2d(3, 64, 3",):
        check(words in page, f"?nn.Conv2d shows: {words}", page)
    check(ask("?Conv2d") == page, "a name without its library is found")
    check("did you mean nn.Conv2d?" in ask("?nn.Conv2x"), "an unknown name is answered with the nearest")
    check("all_gather" in ask("?world") and "step" in ask("?opt"), "an object is answered with its methods")
    check("2-d convolution" in ask("?capl.op.conv2d"), "ops have their pages")
    check("Stays when" in ask("?x:keep") and "optimizer" in ask("?optim"), "methods that C gives and libraries, too")
    check("names that contain it" not in ask("?") and "?nn " in ask("?"), "? alone lists the topics")


def command():
    status, out, _ = capl("docs", "data.folder")
    check(status == 0 and out.startswith("data.folder("), "capl docs NAME prints the same page", out)
    status, _, err = capl("docs", "data.foldr")
    check(status == 1 and "did you mean data.folder?" in err, "with did you mean", err)
    status, _, err = capl("docs", "a", "b")
    check(status == 1 and "takes one name" in err, "one name at a time", err)


def speed():
    """Of a processor, the start of the program included: the first question reads only the file that it is about."""
    def seconds(*words):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        capl(*words)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cost = min(seconds("docs", "nn.Conv2d") for _ in range(5))
    check(cost < 0.05, f"the first ?name takes {1000 * cost:.0f} ms of a processor, less than 50")


def main():
    known = records()
    completeness(known)
    examples(known)
    prompt()
    command()
    speed()


in_empty_folder(main)
