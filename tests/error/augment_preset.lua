--- capl: 1
data.loader {source = data.captcha {count = 8}, role = "train", batch = 8, workers = 0, augment = "strongest"}
