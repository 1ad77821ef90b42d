//go:build !before1.37

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/registry/scheduling/compositepodgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// The parts of Kubernetes' Go API that differ between releases: this file has those of 1.37, release_before_1.37.go older ones.

var (
	kindsOfRelease    = []runtime.Object{&resourcev1.DeviceTaintRule{}, &schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{}}
	versionsOfRelease = schema.GroupVersions{schedulingv1beta1.SchemeGroupVersion, schedulingv1alpha3.SchemeGroupVersion}
)

// storedAs returns the version that the scheduler reads of an object served in several versions.
func storedAs(obj runtime.Object) (runtime.GroupVersioner, bool) {
	_, ok := obj.(*schedulingv1alpha3.PodGroup)
	return schedulingv1beta1.SchemeGroupVersion, ok
}

func isClusterWide(obj runtime.Object) bool {
	_, ok := obj.(*resourcev1.DeviceTaintRule)
	return ok
}

// admitGroup returns a group as the registry would store it; other objects are returned unchanged.
func (p *podCreation) admitGroup(obj runtime.Object) (runtime.Object, error) {
	switch typed := obj.(type) {
	case *schedulingv1beta1.PodGroup:
		internal, made := &scheduling.PodGroup{}, &schedulingv1beta1.PodGroup{}
		prepare := func() { podgroup.NewStrategy().PrepareForCreate(context.Background(), internal) }
		err := p.createGroup(typed, internal, made, "podgroups", typed.Spec.Priority != nil, prepare)
		made.Generation, made.Status = typed.Generation, typed.Status
		return made, err
	case *schedulingv1alpha3.CompositePodGroup:
		internal, made := &scheduling.CompositePodGroup{}, &schedulingv1alpha3.CompositePodGroup{}
		prepare := func() { compositepodgroup.NewStrategy().PrepareForCreate(context.Background(), internal) }
		err := p.createGroup(typed, internal, made, "compositepodgroups", typed.Spec.Priority != nil, prepare)
		made.Generation, made.Status = typed.Generation, typed.Status
		return made, err
	}
	return obj, nil
}

// takeOverExecutor records victims instead of deleting them.
func takeOverExecutor(executor *preemption.Executor, log *victimLog) {
	executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) (bool, error) {
		log.names = append(log.names, victim.Namespace+"/"+victim.Name)
		return false, nil
	}
}

func rawScore(scored fwk.NodePluginScores, plugin int) int64 { return scored.RawScores[plugin].Score }

// incompletePods lists pods with a missing group or parent group.
func (p *pass) incompletePods() []*corev1.Pod { return p.queue.IncompletePodGroupPodsPods() }

func (p *pass) queuedPod(pod *corev1.Pod) (*framework.QueuedPodInfo, bool) {
	return p.queue.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
}
