"""DefaultPreemption: make room for a pod that fits nowhere by evicting less important ones."""
