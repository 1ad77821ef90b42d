"""Admission: defaults, priorities, quotas, addresses and validation of objects before they are stored."""
