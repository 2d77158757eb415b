-- lazy.lua: the parts of capl that are loaded when first used: name -> module, and which field of it.
-- SPDX-License-Identifier: Apache-2.0
return {
  nn = {"nn"}, optim = {"optim"}, data = {"data"}, augment = {"augment"}, plot = {"plot"}, text = {"text"},
  train = {"train"}, io = {"io"}, params = {"params", "params"}, choice = {"params", "choice"},
  replicate = {"dist.parallel", "replicate"},
  capture = {"capture"}, distributed = {"dist", "distributed"}, text_meter = {"meter.text", "of_charset"},
  expect = {"recipe.expect", "add"}, progress = {"run.progress", "new"}, final = {"run.public", "final"},
  checkpoint = {"nn.recompute", "checkpoint"}, run_folder = {"run.public", "folder"},
  save_model = {"run.modelfile", "save"},
}
