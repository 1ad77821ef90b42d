"""What is served: the resources there are, and the fields of their types."""
