--- capl: 1
--- needs: minutes=soon
print("never")
