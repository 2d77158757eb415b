--- capl: 1
print("nothing to train")
