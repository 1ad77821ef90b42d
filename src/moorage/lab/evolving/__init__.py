"""The search over score functions: proposers, generations and the report of their lineage."""
