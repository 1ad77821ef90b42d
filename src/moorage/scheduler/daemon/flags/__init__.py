"""The flags of `moorage scheduler`, in kube-scheduler's syntax: one table drives parsing, help, /flagz and the docs."""
