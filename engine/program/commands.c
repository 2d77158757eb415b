/* commands.c -- the list of commands.
** SPDX-License-Identifier: Apache-2.0
*/
#include "program/commands.h"

#include <string.h>

/* Each has a module lua/capl/cli/NAME.lua, with _ for -. */
static const capl_command commands[] = {
  /* ---- begin ---- */
  {.name = "new", .group = "begin", .usage = "capl new NAME [--data=SOURCE] [--from=RECIPE]",
   .help = "creates NAME.lua, a new recipe: for generated captchas, for your own, or a copy"},
  {.name = "list", .group = "begin", .usage = "capl list [NAME] [--json]",
   .help = "lists the included recipes: purpose and expected accuracy of each"},

  /* ---- train ---- */
  {.name = "run", .group = "train", .usage = "capl RECIPE [--key=value…] | capl run RECIPE [--key=value…]",
   .recipe = RECIPE_NEEDED, .ranks = RANKS_STARTS,
   .help = "trains: runs a recipe, a complete experiment in one file; --help lists its settings"},
  {.name = "sweep", .group = "train", .recipe = RECIPE_STAYS,
   .usage = "capl sweep RECIPE --grid KEY=A,B,C … [--random=N | --halving=N] [--metric=M] [--key=value…] | "
            "capl sweep --resume FOLDER",
   .help = "trains a recipe with several combinations of settings, in parallel, and ranks them by a validation metric"},
  {.name = "lr", .group = "train",
   .usage = "capl lr RECIPE [--min_lr=A] [--max_lr=B] [--steps=N] [--out=FILE] [--json] [--key=value…]",
   .recipe = RECIPE_NEEDED, .help =
   "learning-rate finder: increases the learning rate at each step, plots the losses and suggests a value"},

  /* ---- look ---- */
  {.name = "check", .group = "look", .usage = "capl check RECIPE [--key=value…]", .recipe = RECIPE_NEEDED,
   .ranks = RANKS_PLANS, .help =
   "prints layers, parameters and memory of a recipe, and finds errors, without computing"},
  {.name = "preview", .group = "look",
   .usage = "capl preview RECIPE [--epoch=N] [--out=FILE] [--samples=N] [--key=value…]", .recipe = RECIPE_NEEDED,
   .help = "draws augmented training images of a recipe, with labels, masks, points and boxes, for each stage"},
  {.name = "doctor", .group = "look", .usage = "capl doctor RECIPE|RUN [--json] [--key=value…]",
   .recipe = RECIPE_OR_RUN, .help =
   "finds problems that prevent a recipe from learning, or that occurred in a run, and suggests fixes"},
  {.name = "bench", .group = "look",
   .usage = "capl bench RECIPE [--steps=N] [--ab KEY=A,B] [--ops] [--augment] [--json] [--fixed] [--key=value…]",
   .recipe = RECIPE_NEEDED, .ranks = RANKS_STARTS,
   .help = "measures the speed of training steps; --ab compares settings in alternating rounds"},

  /* ---- runs ---- */
  {.name = "runs", .group = "runs", .usage = "capl runs [FOLDER] [--sort=KEY] [--json]",
   .help = "lists the runs in runs/ or FOLDER: state, steps, time, best metric"},
  {.name = "attach", .group = "runs", .usage = "capl attach [RUN|PROCESS]",
   .help = "pauses a run at the end of its step and opens a prompt inside it: inspect tensors, change the learning "
           "rate, run steps; "
           "without arguments: lists the runs"},
  {.name = "monitor", .group = "runs", .usage = "capl monitor [RUN] [--every=SECONDS] [--count=N] [--json]",
   .help = "shows power, load, memory, temperature and clocks of GPUs and processors, and the progress of runs"},
  {.name = "report", .group = "runs", .usage = "capl report RUN|SWEEP [--out=FILE]",
   .help = "writes the report of a run or a sweep from the files in its folder, also for a killed or running one"},
  {.name = "diff", .group = "runs", .usage = "capl diff RUN RUN [--out=FILE] [--json]",
   .help = "compares two runs: settings, data, model, curves, and the significance of differences of metrics"},

  /* ---- models ---- */
  {.name = "predict", .group = "models", .usage = "capl predict MODEL IMAGE… [--json]",
   .help = "predicts PNG and JPEG files, folders of them or a list on standard input (-): path, text, confidence"},
  {.name = "eval", .group = "models",
   .usage = "capl eval MODEL --data=SOURCE [--label=PATTERN] [--errors=FILE] [--json]",
   .help = "evaluates a trained model on labelled PNG and JPEG files"},
  {.name = "serve", .group = "models", .usage = "capl serve MODEL [--port=N] [--host=ADDRESS]", .confined = true,
   .help = "serves a trained model over HTTP: an image by POST, its prediction as JSON"},
  {.name = "verify", .group = "models", .usage = "capl verify MODEL|FILE.onnx [--json]",
   .help = "checks that a model gives the same output as when it was saved"},
  {.name = "export", .group = "models", .usage = "capl export MODEL --format=onnx|ddddocr [--out=FILE|DIR] [--json]",
   .help = "writes a model as an ONNX file with its preprocessing inside, or for ddddocr, and verifies it"},

  /* ---- data ---- */
  {.name = "generate", .group = "data",
   .usage = "capl generate --out=DIR [--preset=P] [--n=N] [--seed=S] [--charset=C] [--length=T]",
   .help = "writes captcha images as PNG files named by their text"},
  {.name = "data", .group = "data",
   .usage = "capl data stat|check|pack SOURCE [--val=SOURCE] [--charset=C] [--label=RULE] [--out=DIR]",
   .help = "prints statistics of a folder, a list or an LMDB database of images; finds errors in it; packs it to LMDB"},

  /* ---- share ---- */
  {.name = "recipe", .group = "share",
   .usage = "capl recipe info FILE [--json] | capl recipe pack FILE [--data=SOURCE] [--weights=MODEL] [--out=FILE] | "
            "capl recipe verify MANIFEST|FILE [--data=SOURCE] [--weights=MODEL] [--without=data,weights] [--json]",
   .help = "describes a recipe without running it; writes a manifest of its files; verifies them"},
  {.name = "test", .group = "share", .usage = "capl test RECIPE [--seeds=N] [--out=FILE] [--json] [--key=value…]",
   .recipe = RECIPE_STAYS,
   .help = "runs a recipe with its default settings and verifies the claims of its capl.expect"},

  /* ---- the program ---- */
  {.name = "info", .group = "program", .usage = "capl info [MODEL] [--json]",
   .help = "describes this machine: processors, devices, environment variables; or describes a model"},
  {.name = "ops", .group = "program", .usage = "capl ops [NAME]",
   .help = "lists operations by backend and dtype, or describes one"},
  {.name = "version", .group = "program", .usage = "capl version [--json]",
   .help = "prints the version; with --json also build and libraries"},
  {.name = "help", .group = "program", .usage = "capl help [COMMAND|exit]",
   .help = "lists the commands, or describes one: purpose, options, examples"},
  {.name = "docs", .group = "program", .usage = "capl docs [NAME] [--json] [--write=DIR]",
   .help = "prints the help of a name, like ?name at the prompt; --write writes the reference pages"},
  {.name = "completion", .group = "program", .usage = "capl completion bash|zsh",
   .help = "prints a shell script that completes commands, options and files"},
  {.name = "man", .group = "program", .usage = "capl man", .help = "prints the manual page: capl man | man -l -"},
  {.name = "eval-code", .group = "program", .usage = "capl -e CODE",
   .help = "runs one line of Lua, such as 'print(capl.randn({2, 3}))'"},
  {.name = "repl", .group = "program", .usage = "capl", .help = "a Lua prompt; ?nn.Conv2d prints the help of a name"},
};

static const capl_global globals[] = {
  {"-e", NULL, "runs the next argument as a line of Lua"},
  {"-i", NULL, "opens a prompt with the recipe's variables after its end or an error"},
  {"-v", NULL, "prints tracebacks with errors"},
  {"--minutes", "N", "overrides the time limit of the recipe; 0: none"},
  {"--ranks", "N", "number of processes (ranks), also after the recipe; gpus: one per GPU"},
  {"--restart", "N", "starts a run again, N times at most, if a rank is lost: from its last checkpoint"},
  {"--allow", NULL, "grants the permissions in the recipe's header without confirmation"},
  {"--trust", NULL, "runs the recipe without a sandbox"},
  {"--help", NULL, "lists the commands; after a command its options, after a recipe its settings"},
  {"--version", NULL, "prints the version; with --json also build and libraries"},
};

/* Commands and options of earlier versions. */
static const struct {
  const char *word, *instead;
} gone[] = {
  {"bench dist", "scripts/bench dist in the source tree measures collectives; a run with --ranks prints its "
                 "efficiency"},
  {"--verify", "generate again with the same --seed into another folder, and compare with diff -r"},
  {"batch.together", "use batch.global_batch_size"},
  {"--learning_curve", "capl sweep RECIPE --grid fraction=0.1,0.3,1 trains on parts of the images"},
};

const char *capl_gone(const char *word)
{
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
    if (strcmp(gone[i].word, word) == 0) return gone[i].instead;
  return NULL;
}

const capl_global *capl_globals(int *n)
{
  *n = sizeof globals / sizeof *globals;
  return globals;
}

enum { COUNT = sizeof commands / sizeof *commands };

const capl_command *capl_commands(int *n)
{
  *n = COUNT;
  return commands;
}

const capl_command *capl_command_find(const char *name)
{
  for (int i = 0; i < COUNT; i++)
    if (strcmp(commands[i].name, name) == 0) return &commands[i];
  return NULL;
}

void capl_commands_suggest(capl_suggestion *s)
{
  for (int i = 0; i < COUNT; i++) capl_suggest(s, commands[i].name);
}
