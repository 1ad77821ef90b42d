"""Storage: versioned objects in memory and on disk, and access to them as structs."""
