"""The real API server as a client sees it: connection, requests, watches, writes, events, leases and extenders."""
