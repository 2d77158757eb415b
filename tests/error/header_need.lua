--- capl: 1
-- a recipe
--- needs: ranks=1 minute=30
print("never")
