"""Why a pod waits or is where it is, and the smallest changes that would let it run."""
