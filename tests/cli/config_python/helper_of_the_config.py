layers = ["data"]
