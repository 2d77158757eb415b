-- What luacheck may assume about names: recipes see capl's environment, library files their own.
-- SPDX-License-Identifier: Apache-2.0
std = "luajit"
max_line_length = false -- scripts/check counts columns
unused_args = false
ignore = {"581"} -- not (x <= y) is true for NaN, x > y is not
-- A library chunk gets the table of C functions as its vararg.
files["lua"] = {globals = {}}
files["bench"] = {read_globals = {"capl", "nn", "optim", "data", "augment", "plot", "train"}}
files["recipes"] = {read_globals = {"capl", "nn", "optim", "data", "augment", "plot", "train"}}
-- 241: tables that only keep tensors alive; 311: pcall's results, of which the last is looked at
files["tests"] = {std = "luajit+busted", read_globals = {"capl", "nn", "optim", "data", "augment", "plot", "train"},
  ignore = {"241", "311"}}
files["tests/fuzz/api"] = {ignore = {"111", "112", "113"}} -- statements as text; prelude.lua makes globals
