"""What the cluster looks like: nodes and pods, assumed ones included."""
