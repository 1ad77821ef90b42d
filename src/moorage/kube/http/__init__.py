"""HTTP/1.1 for both sides: parsing with limits, a server, a pool of client connections, proxies and TLS."""
