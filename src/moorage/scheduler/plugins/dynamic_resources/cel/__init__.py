"""CEL selectors over devices: source, syntax tree, cost bounds, compiled programs."""
