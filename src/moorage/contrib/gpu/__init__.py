"""GPU sharing: devices, fragmentation, and packing policies; a profile must enable the plugins."""
