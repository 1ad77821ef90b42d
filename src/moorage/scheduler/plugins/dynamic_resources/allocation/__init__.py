"""The search for devices that satisfy the requests and constraints of claims."""
