"""NodeResourcesFit: requests must fit on the node; scoring strategies rank the feasible nodes."""
