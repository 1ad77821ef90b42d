// Present so that flush.go may declare functions that are defined elsewhere.
