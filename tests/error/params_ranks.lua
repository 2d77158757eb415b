--- capl: 1
capl.params {epochs = 3, ranks = 2}
