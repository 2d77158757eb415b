--- capl: 1
data.loader {source = data.captcha {count = 10}, batch = 4}
