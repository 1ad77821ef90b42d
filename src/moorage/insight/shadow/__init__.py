"""`--shadow`: a second configuration decides in parallel, in a separate process, and changes nothing."""
