"""LearnedScore: a trained policy scores the nodes that the filters left, within a time limit."""
