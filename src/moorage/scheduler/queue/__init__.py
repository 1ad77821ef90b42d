"""The scheduling queue: state machines without I/O, with an injected clock."""
