"""No option is dropped silently: every option of every public function is misspelled once, and each that takes one of several words
is given another; the error names what was given.

What functions there are and which options they take is asked of `capl docs --json`, so a new function is covered by itself: by its
signature, the example of its docstring, or, where neither shows a call, by a line in CALLS. All calls are one run.

SPDX-License-Identifier: Apache-2.0
"""
import json
import re

from program import capl, check, in_empty_folder

# Calls that docstrings do not show; @ is where an option goes.
CALLS = """
augment.schedule augment.schedule{{}, {from = {epoch = 2}, augment = {rotate = 5}, @}}
data.captcha data.captcha{preset = "free", @}
data.loader data.loader{source = captchas, batch = 2, role = "val", @}
data.save_captchas data.save_captchas{dir = "out", count = 2, @}
optim.schedule.one_cycle optim.schedule.one_cycle{max_lr = 1, total_steps = 10, @}
optim.schedule.plateau optim.schedule.plateau{lr = 1, @}
train.Checkpoint train.Checkpoint{model = model, optimizer = opt, @}
train.EarlyStopping train.EarlyStopping{patience = 1, @}
train.fit train.fit{model = model, optimizer = opt, train = train_loader, val = false, steps = 1, loss = loss_of, @}
capl.empty capl.empty(2, {@})
capl.io.open_model capl.io.open_model("nowhere", {@})
capl.model capl.model(model, {@})
capl.precision capl.precision{cpu = "fp32", @}
capl.rand capl.rand(2, {@})
capl.randn capl.randn(2, {@})
capl.replicate capl.replicate(model, {@})
capl.tensor capl.tensor({1, 2}, {@})
capl.text_meter capl.text_meter("0-9", {@})
capl.zeros capl.zeros(2, {@})
data.explore data.explore("nowhere", {@})
data.folder data.folder("nowhere", {@})
data.list data.list("nowhere", {@})
data.lmdb data.lmdb("nowhere", {@})
data.open data.open("nowhere", {@})
data.series data.series(data.pm25{days = 30}, {target = "pm25", features = {"pm25"}, window = 4, @})
data.split data.split(captchas, {@})
module:load_state_dict model:load_state_dict(model:state_dict(), {@})
nn.CTCLoss nn.CTCLoss{@}
nn.AdaptiveMaxPool1d nn.AdaptiveMaxPool1d(2, {@})
nn.CELU nn.CELU{@}
nn.CircularPad1d nn.CircularPad1d(1, {@})
nn.CircularPad2d nn.CircularPad2d(1, {@})
nn.ConstantPad1d nn.ConstantPad1d(1, 0, {@})
nn.ConstantPad2d nn.ConstantPad2d(1, 0, {@})
nn.Dropout1d nn.Dropout1d{@}
nn.Dropout3d nn.Dropout3d{@}
nn.Hardshrink nn.Hardshrink{@}
nn.ReplicationPad1d nn.ReplicationPad1d(1, {@})
nn.ReplicationPad2d nn.ReplicationPad2d(1, {@})
nn.Softmin nn.Softmin{@}
nn.Softshrink nn.Softshrink{@}
nn.ZeroPad1d nn.ZeroPad1d(1, {@})
tensor:argsort capl.zeros(2):argsort(1, {@})
nn.TransformerEncoder nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1, {@})
nn.init.trunc_normal nn.init.trunc_normal(layer.weight, {@})
nn.init.trunc_normal_ nn.init.trunc_normal_(x, {@})
nn.dice nn.dice(x, label, {@})
nn.embedding nn.embedding(label, x, {@})
nn.focal nn.focal(x, label, {@})
nn.binary_cross_entropy_with_logits nn.binary_cross_entropy_with_logits(x, x, {@})
nn.nll nn.nll(log, label, {@})
plot.overlay.boxes plot.overlay.boxes(capl.zeros(3, 8, 8), {{1, 1, 4, 4, @}})
plot.overlay.points plot.overlay.points(capl.zeros(3, 8, 8), {{1, 1, @}})
optim.join optim.join({opt}, {@})
optim.schedule.warmup optim.schedule.warmup(optim.schedule.constant{lr = 1}, {steps = 2, @})
tensor:topk x:topk(1, 2, {@})
train.evaluate train.evaluate(model, loader, {@})
train.freeze train.freeze(model, "0.weight", {@})
train.load_weights train.load_weights(model, "nowhere", {@})
train.sharded_step train.sharded_step(opt, {}, loss_of, {@})
world:all_reduce world:all_reduce(x, {@})
""".strip().splitlines()

# Options within options: what is misspelled, and in which call.
NESTED = """
patience train.fit{model = model, optimizer = opt, train = train_loader, val = loader, steps = 1, loss = loss_of, early_stop = {@}}
decay train.fit{model = model, optimizer = opt, train = train_loader, val = false, steps = 1, loss = loss_of, ema = {@}}
every train.fit{model = model, optimizer = opt, train = train_loader, val = false, steps = 1, loss = loss_of, checkpoint = {@}}
names train.fit{model = model, optimizer = opt, train = train_loader, val = false, steps = 1, loss = loss_of, freeze = {@}}
strict train.fit{model = model, optimizer = opt, train = train_loader, val = false, steps = 1, loss = loss_of, init_from = {path = "x", @}}
growth optim.SGD(model:parameters(), {lr = 0.1, loss_scale = {@}})
lr optim.SGD({{params = model:parameters(), @}}, {lr = 0.1})
mean data.loader{source = captchas, batch = 2, role = "val", normalize = {mean = {0.5}, std = {0.5}, @}}
rotate data.loader{source = captchas, batch = 2, role = "train", augment = {rotate = 5, @}}
size data.loader{source = captchas, batch = 2, role = "train", augment = {blur = {0, 1, @}}}
epoch augment.schedule{{}, {from = {epoch = 2, @}, augment = {rotate = 5}}}
epochs augment.schedule{{}, {from = {epoch = 2}, augment = {rotate = 5}, ramp = {epochs = 2, @}}}
lr_scale optim.SGD(optim.groups(model, {lr = 1, rules = {{match = "0", @}}}), {lr = 1})
charset capl.model(model, {output = "text", @})
dim capl.cat{x, x, @}
dim capl.stack{x, x, @}
dtype capl.tensor{1, 2, @}
dtype capl.zeros{1, 2, @}
keepdim x:sum{1, @}
head nn.Sequential{layer, @}
lr optim.SGD({layer.weight, @}, {lr = 0.1})
""".strip().splitlines()

# Any word is right here.
FREE = """
augment.schedule.from augment.schedule.name augment.schedule.shape
""".split()

# A table that is no table of options.
NO_OPTIONS = """
capl.cat capl.stack nn.ModuleDict nn.Unflatten optim.lr_factor
capl.io.save_model capl.save_model capl.params
capl.error data.pm25_features
checkpoint:resume loader:measure loader:waited rate:report schedule:draw schedule:report text_meter:add
""".split()

PRELUDE = """--- capl: 1
--- needs: minutes=5
local x, label = capl.ones(2, 3), capl.zeros(2, {dtype = "i32"})
local log = x:log_softmax()
local model = nn.Sequential{nn.Linear(3, 3)}
local layer = nn.Linear(3, 3)
local captchas = data.captcha{charset = "0-9", length = 2, count = 8, fixed = true}
local loader = data.loader{source = captchas, batch = 2, role = "val"}
local train_loader = data.loader{source = captchas, batch = 2, role = "train"}
local opt = optim.SGD(model:parameters(), {lr = 0.1})
local world = capl.distributed()
local function loss_of() return x:sum() end
local env = {x = x, label = label, log = log, model = model, layer = layer, captchas = captchas, loader = loader, opt = opt,
  world = world, train_loader = train_loader, loss_of = loss_of}
setmetatable(env, {__index = _G})
local function try(name, key, code)
  local f = assert(load(code, "=call", "t", env))
  local ok, err = pcall(f)
  print("RESULT", name, key, ok, (tostring(err):gsub("\\n", " ")))
end
"""


def closing(text, start):
    depth = 0
    for i in range(start, len(text)):
        if text[i] in "({":
            depth += 1
        elif text[i] in ")}":
            depth -= 1
            if depth == 0:
                return i
    return None


def short(name):
    return re.split("[.:]", name)[-1]


def of_example(name, code):
    """The example with @ where options of its call of name go, or None."""
    found = re.search(r"(?<![\w.:])[\w.():]*" + re.escape(short(name)) + r"\s*([({])", code) or \
        re.search(r"\b" + re.escape(short(name)) + r"\s*([({])", code)
    if not found:
        return None
    start = found.start(1)
    end = closing(code, start)
    inner = code[start + 1:end].rstrip()
    if code[start] == "{":
        return code[:end] + ", @" + code[end:]
    if inner.endswith("}") and re.search(r"\{[^{}]*\w+ = ", inner):
        return code[:start + 1] + inner[:-1] + ", @})" + code[end + 1:]
    return code[:start + 1] + inner + (", " if inner else "") + "{@})" + code[end + 1:]


def call_of(record, calls):
    name = record["name"]
    if name in calls:
        return calls[name]
    if re.search(r"[\w.]+\{…\}", record["signature"]):
        return name + "{@}"
    for example in record["examples"] or []:
        code = of_example(name, example.split("  -->")[0])
        if code:
            return code
    return None


def with_aliases(records):
    """mse_loss is mse: the examples of one are the other's."""
    by_name = {record["name"]: record for record in records}
    for record in records:
        name = record["name"]
        other = by_name.get(name[:-5] if name.endswith("_loss") else name + "_loss")
        if other:
            shown = list(record["examples"] or []) + list(other["examples"] or [])
            record["examples"] = [re.sub(rf"\b{short(other['name'])}\b", short(name), example) for example in shown]
    return records


def choices_of(record):
    """Options whose text shows words to choose from: reduction = "mean"|"sum"|"none"."""
    chosen = [o["name"] for o in record.get("options") or [] if re.match(r'\w+ = "[^"]*"[^"|]*\|\s*"', o.get("text") or "")]
    return chosen + [key for key in ("dtype", "device") if key in keys_of(record) and key not in chosen]


def keys_of(record):
    keys = [o["name"] for o in record.get("options") or []]
    for group in re.findall(r"\{([^{}]*)\}", record["signature"]):
        keys += re.findall(r"(?:^|, )([a-z_]\w+)(?= =|,|$)", group)
    return list(dict.fromkeys(keys))


def statement(code, option):
    code = code.replace("@", option)
    return code if code.startswith("return ") or re.match(r"local\b", code) else "return " + code


def cases_of(records):
    calls = dict(line.split(" ", 1) for line in CALLS)
    cases, uncalled = [], []
    for record in records:
        keys = keys_of(record)
        if record["kind"] in ("op", "property") or not keys or record["name"] in NO_OPTIONS:
            continue
        code = call_of(record, calls)
        if not code:
            uncalled.append(record["name"])
        else:
            cases += [(record["name"], key + "x", statement(code, key + "x = 1")) for key in keys if key + "x" not in keys]
            cases += [(record["name"], "nonsense", statement(code, key + ' = "nonsense"')) for key in choices_of(record)
                      if record["name"] + "." + key not in FREE]
    for line in NESTED:
        key, code = line.split(" ", 1)
        cases.append((code, key + "x", statement(code, key + "x = 1")))
    return cases, uncalled


def run(cases):
    with open("calls.lua", "w") as f:
        f.write(PRELUDE)
        for name, key, code in cases:
            f.write(f"try({json.dumps(name)}, {json.dumps(key)}, [==[{code}]==])\n")
    status, out, err = capl("calls.lua", timeout=120)
    check(status == 0, "all calls are made", err + out[-1000:])
    return [line.split("\t")[1:] for line in out.splitlines() if line.startswith("RESULT")]


def main():
    records = with_aliases(json.loads(capl("docs", "--json")[1]))
    cases, uncalled = cases_of(records)
    cases += [("nn.Linear", "in_features is given twice", "return nn.Linear(3, 3, {in_features = 4})")]
    cases += [("capl.model", "nonsense", 'return capl.model(model, {output = "nonsense"})')]
    bad = []
    for (name, key, code), (_, _, ok, text) in zip(cases, run(cases)):
        if ok == "true" or key not in text:
            bad.append(f"{name}: {code} -> {'accepted' if ok == 'true' else text}")
    check(len(cases) > 400, "there are options to misspell", str(len(cases)))
    check(not bad, "a misspelled option is an error that names it", "\n".join(bad))
    check(not uncalled, "the test knows how each function is called: an example in its docstring shows it, or a line in CALLS",
          " ".join(uncalled))


in_empty_folder(main)
