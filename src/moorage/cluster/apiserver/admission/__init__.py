"""What is done to objects before they are stored: defaults, priorities, addresses, validation."""
