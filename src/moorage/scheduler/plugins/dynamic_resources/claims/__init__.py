"""ResourceClaims: their latest versions, pending allocations, and claims for extended resources."""
