"""Server-side tables, as `kubectl get` prints them."""
