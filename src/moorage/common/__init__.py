"""Small building blocks without Kubernetes knowledge: errors, clocks, caches, arrays and text."""
