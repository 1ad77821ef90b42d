"""The only place that wires real parts together."""
