"""CEL as Kubernetes extends it, for device selectors and the rules of custom resources."""
