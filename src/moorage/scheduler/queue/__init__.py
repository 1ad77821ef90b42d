"""Who is next: pure state machines with an injected clock."""
