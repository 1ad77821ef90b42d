"""Plans: which pods to move, in which order, and the node that the scheduler chooses for each of them."""
