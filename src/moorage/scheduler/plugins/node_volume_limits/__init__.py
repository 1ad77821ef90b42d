"""NodeVolumeLimits: limits the number of attached volumes per CSI driver and node."""
