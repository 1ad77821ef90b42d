// Allows function declarations without a body in flush.go.
