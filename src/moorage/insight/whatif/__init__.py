"""A cluster that can be changed and changed back: what the scheduler would do if things were different."""
