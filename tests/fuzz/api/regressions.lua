-- regressions.lua: calls that once went wrong, one statement per line; replayed before any random call.
-- SPDX-License-Identifier: Apache-2.0
v1 = data.loader{source = data.tensors{image = capl.zeros({6, 1, 4, 4}, {dtype = 'u8'}), target = capl.zeros({6}, {dtype = 'i32'})}, role = 'val', batch = 4}
v2 = v1:since()
capl.error{op = "x"}
v1 = data.captcha{charset = '0-9', length = 3, count = 2^32 - 1, fixed = true} v1.box:fit_length() v1.box:characters() v1.box:bad_labels()
v1 = train.RegressionMeter{} v1.add(1.5, {})
v7 = optim.AdamW({capl.randn({2, 5, 65536, 8, 4}):view(-1)[1], nil})
