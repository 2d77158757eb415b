--- capl: 2
print("never")
