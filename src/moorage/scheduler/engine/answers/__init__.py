"""Standing answers: what was found out about every node for one pod, kept true for the next pod that asks the same."""
