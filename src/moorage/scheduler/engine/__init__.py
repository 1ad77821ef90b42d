"""How a pod is placed; knows no HTTP."""
