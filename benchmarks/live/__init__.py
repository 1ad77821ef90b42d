"""Both schedulers on a real control plane, side by side: `make bench`, `make bench-start` and `make bench-latency`."""
