"""What could be changed, one module for each sort of obstacle.

Each function takes a subject and the rows on which nothing else is in the way, and yields changes that were tried.
"""
