"""The client of the API server: connection, requests, watches, writes, events, leases and extenders."""
