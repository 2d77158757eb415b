--- capl: 1
--- needs: ranks=4
print("never")
