"""Plans: which pods to move, in which order, and the predicted node of each pod."""
