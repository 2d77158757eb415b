-- train: the ready-made training loop, and the evaluation it uses for custom training loops.
--
-- train.fit does what an explicit loop in a recipe would do, in the same order; recipes/captcha_cnn.lua shows one.
-- SPDX-License-Identifier: Apache-2.0
return require("missing").watch("train", {
  fit = require "train.fit",
  Anomaly = require("train.callbacks.anomaly").Anomaly,
  lr_find = require("train.lr_find").find,
  batch_by_memory = require "train.batch_by_memory",
  initial_loss = require("train.callbacks.initial_loss").of,
  evaluate = require "train.evaluate",
  Log = require("run.log").new,
  draw_schedule = require("train.callbacks.plan").draw,
  Monitor = require("train.callbacks.monitor").Monitor,
  EMA = require("train.callbacks.ema").EMA,
  EarlyStopping = require("train.callbacks.early_stop").EarlyStopping.new,
  BestTracker = require("train.callbacks.best").BestTracker.new,
  Checkpoint = require("train.callbacks.checkpoint").Checkpoint,
  freeze = require("train.callbacks.freeze").freeze,
  clip_grad_norm_ = require("optim.clip").clip_grad_norm_,
  clip_grad_value_ = require("optim.clip").clip_grad_value_,
  load_weights = require("train.callbacks.weights").load_weights,
  save = require("train.tree").save,
  load = require("train.tree").load,
  sharded_step = require("train.callbacks.shards").sharded_step,
  save_evaluation = require "train.evaluation".save,
  TextMeter = require "meter.text".new,
  ClassificationMeter = require "meter.classification".new,
  SegmentationMeter = require "meter.segmentation".new,
  DetectionMeter = require "meter.detection".new,
  LocalizationMeter = require "meter.localization".new,
  MultilabelMeter = require "meter.multilabel".new,
  RegressionMeter = require "meter.regression".new,
})
