def rendered(r): return "x"
def index(k): return "x"
