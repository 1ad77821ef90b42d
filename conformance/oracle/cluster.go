package main

import (
	"context"
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	testingclock "k8s.io/utils/clock/testing"
)

// cluster is a complete kube-scheduler without an API server, and the objects of its informers.
type cluster struct {
	world     *world
	clock     *testingclock.FakeClock
	scheduler *scheduler.Scheduler
	events    *eventLog
	stop      context.CancelFunc

	conditions map[string]condition // of groups, by name, written since the last read
}

// newCluster builds a scheduler from a configuration as kube-scheduler's main does, without objects.
func newCluster(config *schedulerconfig.KubeSchedulerConfiguration, options ...scheduler.Option) (*cluster, error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{clock: testingclock.NewFakeClock(epoch), events: &eventLog{}, stop: stop, conditions: map[string]condition{}}
	client := newClient(c.notePatch)
	c.world = newWorld(client)
	options = append([]scheduler.Option{
		scheduler.WithComponentConfigVersion(config.TypeMeta.APIVersion),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(config.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(config.PodInitialBackoffSeconds),
		scheduler.WithExtenders(config.Extenders...),
		// One node at a time: with more, the first feasible nodes depend on the machine.
		scheduler.WithParallelism(1),
		scheduler.WithClock(c.clock),
	}, options...)
	var err error
	recorders := func(string) events.EventRecorderLogger { return c.events }
	c.scheduler, err = scheduler.New(ctx, client, c.world, nil, recorders, options...)
	if err != nil {
		stop()
		return nil, err
	}
	return c, nil
}

// newClient accepts all writes and stores none: decisions are reported, not carried out.
func newClient(notePatch func(clienttesting.PatchAction)) *fake.Clientset {
	client := fake.NewSimpleClientset()
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch action.GetVerb() {
		case "create", "update":
			if write, ok := action.(interface{ GetObject() runtime.Object }); ok {
				return true, write.GetObject(), nil
			}
		case "patch":
			notePatch(action.(clienttesting.PatchAction))
		}
		return true, nil, nil
	})
	return client
}

func (c *cluster) close() error {
	c.stop()
	c.scheduler.SchedulingQueue.Close()
	return c.scheduler.Profiles.Close()
}

// load creates the objects of an input: other kinds, then nodes, running pods and pending pods, so that a pod finds all
// objects that it refers to. Objects of one kind keep their order of appearance.
func load(raws []json.RawMessage) ([]runtime.Object, error) {
	made := newCreation()
	var objs []runtime.Object
	for _, raw := range raws {
		obj, err := made.decode(raw)
		if err != nil {
			return nil, err
		}
		if obj != nil {
			objs = append(objs, obj)
		}
	}
	objs = append(objs, made.missingNamespaces(objs)...)
	pods, err := newPodCreation(objs)
	if err != nil {
		return nil, err
	}
	stages := make([][]runtime.Object, stageCount)
	for _, obj := range objs {
		obj, err := pods.admit(obj)
		if err != nil {
			return nil, err
		}
		stage := stageOf(obj)
		stages[stage] = append(stages[stage], obj)
	}
	var ordered []runtime.Object
	for _, stage := range stages {
		ordered = append(ordered, stage...)
	}
	return ordered, nil
}

// The stages in which objects are added.
const (
	stageOthers = iota
	stageNodes
	stageRunning
	stagePending
	stageCount
)

func hasEnded(obj runtime.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	return ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
}

func stageOf(obj runtime.Object) int {
	switch typed := obj.(type) {
	case *corev1.Node:
		return stageNodes
	case *corev1.Pod:
		if typed.Spec.NodeName != "" {
			return stageRunning
		}
		return stagePending
	}
	return stageOthers
}

// tell adds objects to the informers. Finished pods are skipped, as in the scheduler's watch.
func (c *cluster) tell(obj runtime.Object) error {
	if hasEnded(obj) {
		return nil
	}
	if _, watched := c.world.byType[reflect.TypeOf(obj)]; !watched {
		return nil
	}
	return c.world.apply(obj)
}
