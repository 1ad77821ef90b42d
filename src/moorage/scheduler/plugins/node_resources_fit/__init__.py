"""NodeResourcesFit: what pods ask for has to fit on their node; strategies say where it fits best."""
