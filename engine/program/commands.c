/* commands.c -- the list of commands.
** SPDX-License-Identifier: Apache-2.0
*/
#include "program/commands.h"

#include <string.h>

/* Each has a module lua/capl/cli/NAME.lua, with _ for -. */
static const capl_command commands[] = {
  /* ---- begin ---- */
  {.name = "new", .group = "begin", .usage = "capl new NAME [--data=SOURCE] [--from=RECIPE]",
   .help = "writes NAME.lua, a recipe to begin with: for drawn captchas, for your own, or a copy"},
  {.name = "list", .group = "begin", .usage = "capl list [NAME] [--json]",
   .help = "lists the recipes that come with capl: what each is for and what it reaches"},

  /* ---- train ---- */
  {.name = "run", .group = "train", .usage = "capl RECIPE [--key=value…] | capl run RECIPE [--key=value…]", .recipe = RECIPE_NEEDED, .ranks = RANKS_STARTS,
   .help = "trains: runs a recipe, a whole experiment in one file; --help lists its settings"},
  {.name = "sweep", .group = "train", .recipe = RECIPE_STAYS,
   .usage = "capl sweep RECIPE --grid KEY=A,B,C … [--random=N] [--metric=M] [--key=value…] | "
            "capl sweep --resume FOLDER",
   .help = "trains a recipe with other settings again and again, side by side, and says which are best on the val images"},
  {.name = "lr", .group = "train", .usage = "capl lr RECIPE [--min_lr=A] [--max_lr=B] [--steps=N] [--out=FILE] [--json] [--key=value…]",
   .recipe = RECIPE_NEEDED,
   .help = "raises the learning rate of a recipe from step to step, draws the losses and suggests a rate"},

  /* ---- look ---- */
  {.name = "check", .group = "look", .usage = "capl check RECIPE [--key=value…]", .recipe = RECIPE_NEEDED, .ranks = RANKS_PLANS,
   .help = "shows the layers, parameters and memory of a recipe, and its mistakes, without computing anything"},
  {.name = "preview", .group = "look", .usage = "capl preview RECIPE [--epoch=N] [--out=FILE] [--samples=N] [--key=value…]",
   .recipe = RECIPE_NEEDED,
   .help = "draws training images of a recipe as its augmentation leaves them, with labels, masks, points and boxes, stage by "
           "stage"},
  {.name = "doctor", .group = "look", .usage = "capl doctor RECIPE|RUN [--json] [--key=value…]", .recipe = RECIPE_OR_RUN,
   .help = "looks for what keeps a recipe from learning, or went wrong in a run, and says what to write"},
  {.name = "bench", .group = "look",
   .usage = "capl bench RECIPE [--steps=N] [--ab KEY=A,B] [--ops] [--augment] [--json] [--fixed] [--key=value…]",
   .recipe = RECIPE_NEEDED, .ranks = RANKS_STARTS,
   .help = "measures how fast the training steps of a recipe are; --ab compares settings, turn by turn"},

  /* ---- runs ---- */
  {.name = "runs", .group = "runs", .usage = "capl runs [FOLDER] [--sort=KEY] [--json]",
   .help = "lists the runs in runs/ or FOLDER: state, steps, time, best figure"},
  {.name = "attach", .group = "runs", .usage = "capl attach [RUN|PROCESS]",
   .help = "stops a run at the end of its step and gives a prompt inside it: look at tensors, change the rate, train a step, go on; "
           "alone: lists the runs to attach to"},
  {.name = "monitor", .group = "runs", .usage = "capl monitor [RUN] [--every=SECONDS] [--count=N] [--json]",
   .help = "shows power, load, memory, temperature and clocks of GPUs and processors as they are, and how runs are going"},
  {.name = "report", .group = "runs", .usage = "capl report RUN|SWEEP [--out=FILE]",
   .help = "writes the page of a run or a sweep from the files in its folder, also of one that was killed or is running"},

  /* ---- models ---- */
  {.name = "predict", .group = "models", .usage = "capl predict MODEL IMAGE… [--json]",
   .help = "reads PNG and JPEG files, folders of them or a list on standard input (-) with a trained model: path, text, "
           "confidence"},
  {.name = "eval", .group = "models", .usage = "capl eval MODEL --data=SOURCE [--label=PATTERN] [--errors=FILE] [--json]",
   .help = "reads labelled PNG and JPEG files with a trained model and counts what it gets right"},
  {.name = "verify", .group = "models", .usage = "capl verify MODEL [--json]",
   .help = "checks that a model says here what it said when it was saved"},

  /* ---- data ---- */
  {.name = "generate", .group = "data", .usage = "capl generate --out=DIR [--preset=P] [--n=N] [--seed=S] [--charset=C] [--length=T]",
   .help = "writes captcha images as PNG files named by their text"},
  {.name = "data", .group = "data", .usage = "capl data stat|check|pack SOURCE [--val=SOURCE] [--charset=C] [--label=RULE] [--out=DIR]",
   .help = "what is in a folder, a list or an LMDB database of images; what is wrong with it; packs it to LMDB"},

  /* ---- share ---- */
  {.name = "recipe", .group = "share", .usage = "capl recipe info FILE [--json]", .help = "what a recipe is, without running it"},
  {.name = "test", .group = "share", .usage = "capl test RECIPE [--seeds=N] [--out=FILE] [--json] [--key=value…]",
   .recipe = RECIPE_STAYS,
   .help = "runs a recipe with its own settings and says whether it reaches what its capl.expect claims"},

  /* ---- the program ---- */
  {.name = "info", .group = "program", .usage = "capl info [MODEL] [--json]",
   .help = "what this program finds on this machine: processors, devices, variables that change what it does; or what a model "
           "is"},
  {.name = "ops", .group = "program", .usage = "capl ops [NAME]",
   .help = "the table of operations by backend and type, or the page of one"},
  {.name = "version", .group = "program", .usage = "capl version [--json]", .help = "which capl this is; with --json also its build and libraries"},
  {.name = "help", .group = "program", .usage = "capl help [COMMAND|exit]",
   .help = "lists the commands, or tells of one: what it does, its options, examples"},
  {.name = "docs", .group = "program", .usage = "capl docs [NAME] [--json] [--write=DIR]",
   .help = "explains a name of recipes as ?name does at the prompt; --write makes pages of all of them"},
  {.name = "completion", .group = "program", .usage = "capl completion bash|zsh",
   .help = "prints a script: with it a shell completes commands, options and files"},
  {.name = "man", .group = "program", .usage = "capl man", .help = "prints the manual page: capl man | man -l -"},
  {.name = "eval-code", .group = "program", .usage = "capl -e CODE",
   .help = "runs one line of Lua, such as 'print(capl.randn({2, 3}))'"},
  {.name = "repl", .group = "program", .usage = "capl", .help = "a prompt for Lua; ?nn.Conv2d there explains a name"},
};

static const capl_global globals[] = {
  {"-e", NULL, "runs the next word as a line of Lua"},
  {"-i", NULL, "a prompt when the recipe has ended or failed, with its variables"},
  {"-v", NULL, "shows tracebacks with errors"},
  {"--minutes", "N", "replaces the recipe's own time limit; 0: none"},
  {"--ranks", "N", "processes that train together, also behind the recipe; gpus: one for each GPU here"},
  {"--allow", NULL, "grants without asking what the recipe's header says it needs"},
  {"--trust", NULL, "runs the recipe without a sandbox"},
  {"--help", NULL, "lists the commands; behind a command its options, behind a recipe its settings"},
  {"--version", NULL, "prints the version; with --json also build and libraries"},
};

/* Words of earlier versions. */
static const struct {
  const char *word, *instead;
} gone[] = {
  {"bench dist", "scripts/bench dist in the source tree measures sums over ranks; a run with --ranks prints its efficiency"},
  {"recipe pack", "capl run FILE#sha256=HEX runs these bytes and no others; capl recipe info FILE prints the hash"},
  {"recipe verify", "capl run FILE#sha256=HEX runs these bytes and no others; capl recipe info FILE prints the hash"},
  {"diff", "capl runs lists the figures of all runs, capl report writes the page of one"},
  {"--verify", "draw again with the same --seed into another folder, and diff -r tells what differs"},
  {"--factor", "it belonged to --halving, which is gone, too: --random=N draws trials"},
  {"--budget", "it belonged to --halving, which is gone, too: --random=N draws trials"},
  {"--carry", "it belonged to --halving, which is gone, too: --random=N draws trials"},
  {"--halving", "--random=N draws trials; a short --max_time first tells which ranges are worth longer ones"},
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
