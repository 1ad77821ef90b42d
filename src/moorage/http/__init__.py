"""A small HTTP/1.1 server, for the embedded API and for the pages of the daemon."""
