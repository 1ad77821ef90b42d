"""HTTP/1.1 for both sides: parsing with limits, connections, a server, a pool of client connections, proxies and TLS.

What is Kubernetes is above: ``client`` talks to API servers, ``box.apiserver`` is one, ``app.serving`` has the daemon's
pages.
"""
