"""What every combination of API server and scheduler has to do: one list of scenarios, and what runs them."""
