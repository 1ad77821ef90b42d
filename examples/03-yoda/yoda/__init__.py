"""Yoda: GPU pods placed by what every card is doing right now."""
