"""`--decision-log`: every decision as a line of JSON, written in the background."""
