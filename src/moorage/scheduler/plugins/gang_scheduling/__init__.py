"""GangScheduling: pods of a group start together, or not at all."""
