"""The differential check: kube-scheduler's own code and Moorage decide on random clusters, and are compared.

python -m tests.conformance fuzz --seed 1 --n 500      compare, and shrink what differs
python -m tests.conformance record --seed 1 --n 100    record inputs and kube-scheduler's answers for the fast suite
"""
