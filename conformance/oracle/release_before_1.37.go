//go:build before1.37

package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Kubernetes 1.36: groups are another alpha API, which is not compared, and the queue contains pods only. Raw scores and
// queue histories are not available.

type entity = *framework.QueuedPodInfo

var (
	kindsOfRelease    []runtime.Object
	versionsOfRelease schema.GroupVersions
)

func storedAs(runtime.Object) (runtime.GroupVersioner, bool) { return nil, false }

func isClusterWide(runtime.Object) bool { return false }

func (p *podCreation) admitGroup(obj runtime.Object) (runtime.Object, error) { return obj, nil }

func takeOverExecutor(executor *preemption.Executor, log *victimLog) {
	executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor, victim *corev1.Pod, _ string) error {
		log.names = append(log.names, victim.Namespace+"/"+victim.Name)
		return nil
	}
}

func rawScore(fwk.NodePluginScores, int) int64 { return 0 }

func (p *pass) incompletePods() []*corev1.Pod { return nil }

func (p *pass) queuedPod(pod *corev1.Pod) (*framework.QueuedPodInfo, bool) {
	return p.queue.GetPod(pod.Name, pod.Namespace)
}

func (p *pass) watchQueue() {
	next := p.scheduler.NextPod
	p.scheduler.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		popped, err := next(logger)
		p.begin(popped)
		return popped, err
	}
}

func membersOf(popped entity) []*framework.QueuedPodInfo { return []*framework.QueuedPodInfo{popped} }

type (
	groupDecision struct{}
	condition     struct{}
)

func (c *cluster) notePatch(clienttesting.PatchAction) {}

func (p *pass) currentGroup() (*groupDecision, bool) { return nil, false }

func (p *pass) describeGroup(*groupDecision) ([]decision, *groupDecision) { return nil, nil }

// groupLog remains empty.
type groupLog struct {
	byState map[fwk.CycleState]*attempt
	placed  map[string]*attempt
}

func newGroupLog([]*framework.QueuedPodInfo) *groupLog { return &groupLog{} }

func (g *groupLog) begin(fwk.CycleState, *corev1.Pod) *attempt { return newAttempt() }

func answerQueue([]byte) any {
	return answer{Error: "queue histories need an oracle of 1.37 or later"}
}
