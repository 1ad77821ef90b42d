"""`--decision-log`: every decision as a line of JSON, written beside the scheduler."""
