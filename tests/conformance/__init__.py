"""The differential check: kube-scheduler's code and Moorage decide on random clusters, and the results are compared.

python -m tests.conformance.run                             the budget of `make conformance`
python -m tests.conformance.fuzz --seed 1 --n 500           compare and shrink differences
python -m tests.conformance.goldens record --into basics    record clusters and results for the fast suite
"""
