"""Lists and watches: selecting objects, and showing them as JSON, as metadata or as tables."""
