-- places.lua: where the public names are: the libraries of recipes, and the objects whose methods they call.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local places = {}

--- The tables of functions, in the order in which a name without one is looked for; module: what require gives; also:
-- files
-- in which docstrings of its names stand beside those where they are defined.
places.libraries = {
  {name = "nn", module = "nn", about = "layers, losses, and classes for networks of your own"},
  {name = "capl", module = "init", also = {"tensor", "docs.native"}, about = "tensors, settings, the run"},
  {name = "optim", module = "optim", also = {"optim.algorithms"}, about = "optimizers"},
  {name = "data", module = "data",
  about = "where batches come from: generated captchas, files, tensors, and the loader"},
  {name = "train", module = "train", about = "train.fit, and its parts for custom training loops"},
  {name = "augment", module = "augment", about = "how training images are changed, and when"},
  {name = "plot", module = "plot", about = "curves, sheets of images, matrices as PNG files"},
  {name = "plot.overlay", module = "plot.overlay", about = "points, masks and boxes over an image"},
  {name = "nn.init", module = "nn", field = "init", also = {"nn.parameter"}, about = "first values of weights"},
  {name = "optim.schedule", module = "optim.schedule", about = "learning rates that change during the run"},
  {name = "capl.text", module = "text", about = "class scores per time step read as texts"},
  {name = "capl.io", module = "io", about = "tensors and models in files"},
}

--- What functions give, and whose methods are called: says: the name an object has in its docstrings; class: its table
-- in the file, whose documented methods are public, or those of only; all: every method is.
places.objects = {
  {name = "tensor", says = "x", modules = {"docs.native", "tensor", "rearrange", "elementwise"}, methods = core.tensor_methods,
  all = true,
    about = "methods and fields of a tensor"},
  {name = "module", says = "model", modules = {"nn.module"}, class = "Module", all = true,
  about = "what every layer and network can do"},
  {name = "optimizer", says = "opt", modules = {"optim.optimizer"}, class = "Optimizer", all = true,
  about = "what every optimizer can do"},
  {name = "loader", modules = {"data.loader"}, class = "Loader", all = true,
  about = "batches of a source: what data.loader gives"},
  {name = "source", modules = {"data"}, class = "Source", all = true,
  about = "samples: what data.captcha, data.folder … give"},
  {name = "world", modules = {"dist.world"}, class = "World", all = true,
    about = "the ranks that train together: what capl.distributed gives"},
  {name = "schedule", modules = {"augment.schedule"}, class = "Schedule",
  about = "a curriculum: what augment.schedule gives",
    only = "at history report state set_state draw"},
  {name = "rate", modules = {"optim.schedule"}, class = "Schedule",
  about = "learning rates of a run: the results of optim.schedule",
    only = "lr apply state set_state report"},
  {name = "ema", modules = {"train.callbacks.ema"}, class = "EMA", about = "averaged weights: what train.EMA gives"},
  {name = "early_stopping", modules = {"train.callbacks.early_stop"}, class = "EarlyStopping",
  about = "what train.EarlyStopping gives"},
  {name = "best_tracker", modules = {"train.callbacks.best"}, class = "BestTracker",
  about = "what train.BestTracker gives"},
  {name = "checkpoint", modules = {"train.callbacks.checkpoint"}, class = "Checkpoint", about = "what train.Checkpoint gives",
    only = "save resume after_step evaluated finish last_words"},
  {name = "monitor", modules = {"train.callbacks.monitor"}, class = "Sampler", about = "what train.Monitor gives"},
  {name = "log", modules = {"run.log"}, class = "Log", about = "what train.Log gives",
  only = "line add flush close state set_state read"},
  {name = "progress", modules = {"run.progress"}, class = "progress", about = "what capl.progress gives",
    only = "resume rate step remember"},
  {name = "captured", modules = {"capture"}, class = "Captured", about = "what capl.capture gives",
  only = "free state"},
  {name = "classification_meter", modules = {"meter.classification"}, class = "Classification",
  about = "what train.ClassificationMeter gives, and train.evaluate for classes"},
  {name = "multilabel_meter", modules = {"meter.multilabel"}, class = "Multilabel",
  about = "what train.MultilabelMeter gives, and train.evaluate for several classes of a sample"},
  {name = "detection_meter", modules = {"meter.detection"}, class = "Detection",
  about = "what train.DetectionMeter gives"},
  {name = "image_meter", modules = {"meter.image"}, class = "Image", about = "what train.ImageMeter gives"},
  {name = "text_meter", modules = {"meter.text"}, class = "Text",
  about = "what train.TextMeter gives, and train.evaluate for texts"},
  {name = "segmentation_meter", modules = {"meter.segmentation"}, class = "Segmentation",
  about = "what train.SegmentationMeter gives"},
  {name = "localization_meter", modules = {"meter.localization"}, class = "Localization",
  about = "what train.LocalizationMeter gives"},
  {name = "regression_meter", modules = {"meter.regression"}, class = "Regression",
  about = "what train.RegressionMeter gives"},
}

--- What else an object may be called at the prompt: "x:sum", "model:parameters", "opt:step".
places.aliases = {
  x = "tensor", t = "tensor", model = "module", net = "module", Module = "module", opt = "optimizer",
  Optimizer = "optimizer", train = "loader", val = "loader", batches = "loader", Loader = "loader", capl = "capl",
  meter = "text_meter",
}

--- Properties of tensors, which are read without a call.
places.properties = {"shape", "dtype", "device", "ndim", "grad", "requires_grad", "is_leaf"}

--- Whether a name of a table is for everybody: what begins with _ is not.
function places.is_public(name) return type(name) == "string" and not name:match("^_") end

--- The library of a name; nil: none.
function places.library(name)
  for _, place in ipairs(places.libraries) do
    if place.name == name then return place end
  end
end

--- The library or object of a name; nil: none.
function places.find(name)
  for _, list in ipairs{places.libraries, places.objects} do
    for _, place in ipairs(list) do
      if place.name == name then return place end
    end
  end
end

return places
