"""Creating, changing and deleting: patches, server-side apply, and subresources."""
