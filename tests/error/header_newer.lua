--- capl: 1
--- needs: cores=9 version=12.3
print("never")
