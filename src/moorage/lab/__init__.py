"""The lab: policies compared on traces and clusters, in virtual time, by the real scheduler."""
