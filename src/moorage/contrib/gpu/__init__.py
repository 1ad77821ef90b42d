"""GPU sharing: devices, fragmentation, and packing policies. A profile must enable the plugins."""
