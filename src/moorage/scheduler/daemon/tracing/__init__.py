"""OpenTelemetry: attempts as traces, some of them, to wherever they are collected. Imported if a flag asks for it."""
