--- capl: 1
capl.params {a = 1}
capl.params {b = 1}
