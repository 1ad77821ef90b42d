package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// eventLog contains the text of each pod's last FailedScheduling event.
type eventLog struct{ failedScheduling map[string]string }

func (l *eventLog) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	if reason == "FailedScheduling" && l.failedScheduling != nil {
		l.failedScheduling[keyOf(regarding)] = fmt.Sprintf(note, args...)
	}
}

func (l *eventLog) WithLogger(klog.Logger) events.EventRecorderLogger { return l }
