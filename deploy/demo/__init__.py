"""`fshipper demo`: everything at work on this machine, killed on the way, and proven byte for byte.

app -> scenario (read this one) -> processes, proof, result; show prints what happens. One thread does it all:
nothing here has a lock, and every child dies with the demo.
"""
