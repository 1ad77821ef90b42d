//go:build !before1.37

package main

import (
	_ "unsafe" // for go:linkname

	"k8s.io/klog/v2"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
)

// The functions that the queue's timers call. They are not exported, and with real timers the outcome of a history would
// depend on goroutines. (flush.s allows functions without a body.)

//go:linkname flushBackoff k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushBackoffQCompleted
func flushBackoff(*internalqueue.PriorityQueue, klog.Logger)

//go:linkname flushUnschedulable k8s.io/kubernetes/pkg/scheduler/backend/queue.(*PriorityQueue).flushUnschedulableEntitiesLeftover
func flushUnschedulable(*internalqueue.PriorityQueue, klog.Logger)
