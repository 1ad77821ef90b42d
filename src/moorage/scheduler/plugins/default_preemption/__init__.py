"""DefaultPreemption: evict lower-priority pods so that an unschedulable pod fits."""
