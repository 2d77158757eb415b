--- capl: 1
--- need: minutes=1
print("never")
