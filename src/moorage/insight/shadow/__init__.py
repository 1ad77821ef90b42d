"""`--shadow`: a second configuration decides beside the one in charge, in a process of its own, and touches nothing."""
