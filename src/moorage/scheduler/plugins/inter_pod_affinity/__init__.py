"""InterPodAffinity: keep pods near to, or away from, other pods."""
