"""The differential check: kube-scheduler's own code and Moorage decide on random clusters, and are compared.

python -m tests.conformance.run                             the budget of `make conformance`
python -m tests.conformance.fuzz --seed 1 --n 500           compare at will, and shrink what differs
python -m tests.conformance.goldens record --into basics    record clusters and answers for the fast suite
"""
