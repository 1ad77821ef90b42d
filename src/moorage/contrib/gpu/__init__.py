"""GPUs that can be shared: devices, fragmentation, and policies that pack them; on when a profile names them."""
