package main

import (
	"context"
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

type permitWaits = map[string]time.Duration

// victimLog records the pods that preemption would evict; they keep their nodes.
type victimLog struct{ names []string }

// takeOverPreemption makes the profile's DefaultPreemption, if it has one, report its victims instead of deleting them, and
// choose the same candidate every time.
func takeOverPreemption(profile framework.Framework) *victimLog {
	log := &victimLog{}
	for _, extension := range profile.EnqueueExtensions() {
		plugin, ok := extension.(*defaultpreemption.DefaultPreemption)
		if !ok {
			continue
		}
		takeOverExecutor(plugin.Executor, log)
		plugin.Evaluator.Interface = &firstCandidate{
			Interface: plugin,
			handle:    profile,
			upstream:  preemption.NewEvaluator(plugin.Name(), profile, plugin, plugin.Executor),
		}
	}
	return log
}

// firstCandidate leaves all decisions to the plugin, except two random ones: the first node of the dry runs, and the winner
// among equal candidates. Both follow node order.
type firstCandidate struct {
	preemption.Interface
	handle   fwk.Handle
	upstream *preemption.Evaluator // the unchanged evaluator of the plugin
}

func (f *firstCandidate) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	_, wanted := f.Interface.GetOffsetAndNumCandidates(nodes)
	return 0, wanted
}

// OrderedScoreFuncs ranks upstream's best candidates, with the first in node order highest.
func (f *firstCandidate) OrderedScoreFuncs(ctx context.Context, nodesToVictims map[string]*extenderv1.Victims) []func(string) int64 {
	now := metav1.Now()
	var candidates []preemption.Candidate
	for node, victims := range nodesToVictims {
		candidates = append(candidates, &candidate{node, startedBy(victims, now)})
	}
	best := f.upstream.SelectCandidate(ctx, candidates)
	rank := map[string]int64{}
	for i, info := range nodesOf(f.handle) {
		rank[info.Node().Name] = -int64(i)
	}
	winner, found := "", false
	for _, rival := range candidates {
		if f.isAsGood(ctx, rival, best) && (!found || rank[rival.Name()] > rank[winner]) {
			winner, found = rival.Name(), true
		}
	}
	return []func(string) int64{func(node string) int64 {
		if node == winner {
			return 1
		}
		return 0
	}}
}

// isAsGood checks with upstream's comparison whether rival is tied with the best. It is if it would win with victims that
// started a nanosecond later, because the start time is compared last and in seconds.
func (f *firstCandidate) isAsGood(ctx context.Context, rival, best preemption.Candidate) bool {
	if rival.Name() == best.Name() {
		return true
	}
	later := rival.Victims().DeepCopy()
	for _, pod := range later.Pods {
		pod.Status.StartTime = &metav1.Time{Time: pod.Status.StartTime.Add(time.Nanosecond)}
	}
	return f.upstream.SelectCandidate(ctx, []preemption.Candidate{best, &candidate{rival.Name(), later}}).Name() == rival.Name()
}

// startedBy copies victims. Victims without a start time (upstream: now, read for each) start at one instant.
func startedBy(victims *extenderv1.Victims, now metav1.Time) *extenderv1.Victims {
	copied := victims.DeepCopy()
	for _, pod := range copied.Pods {
		if pod.Status.StartTime == nil {
			pod.Status.StartTime = &now
		}
	}
	return copied
}

type candidate struct {
	node    string
	victims *extenderv1.Victims
}

func (c *candidate) Name() string                 { return c.node }
func (c *candidate) Victims() *extenderv1.Victims { return c.victims }
func (c *candidate) NumPodGroupDisruptions() int  { return 0 }

// orderedStatuses lists nodes in node order; upstream's map has no order.
type orderedStatuses struct {
	fwk.NodeToStatusReader
	order map[string]int
}

func (o orderedStatuses) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	nodes, err := o.NodeToStatusReader.NodesForStatusCode(lister, code)
	if err != nil {
		return nil, err
	}
	// The list may belong to the snapshot.
	nodes = append([]fwk.NodeInfo(nil), nodes...)
	sort.Slice(nodes, func(a, b int) bool { return o.order[nodes[a].Node().Name] < o.order[nodes[b].Node().Name] })
	return nodes, nil
}
