"""OpenTelemetry: sampled attempts as traces, sent to a collector. Imported only if a flag enables it."""
