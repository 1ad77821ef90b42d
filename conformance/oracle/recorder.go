package main

import (
	"context"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// recorder wraps a profile's framework, forwards all calls, and records the results. It replaces a few random choices of
// upstream: the winner among equal nodes of a narrowed search, the order of candidates for preemption, and the order of a
// group's placements (see groups.go). Binding ends without API calls.
type recorder struct {
	framework.Framework
	weights map[string]int64
	attempt *attempt  // the latest
	group   *groupLog // the record of a group's cycle
	victims *victimLog
	bound   chan struct{}
}

// attempt is the record of one pod's scheduling cycle.
type attempt struct {
	pod        *corev1.Pod    // a member of a group; nil for a single pod
	within     *fwk.Placement // the nodes of a group's placement; nil for all
	preFilter  *fwk.Status
	narrowed   sets.Set[string]       // the nodes that PreFilter returned; nil for all
	narrowedBy []string               // the plugins that returned them
	filtered   map[string]*fwk.Status // nil for a feasible node
	scores     []fwk.NodePluginScores
	tied       []string
	node       string
	nomination *nomination

	// The nominated node is tried first; if it is feasible, no other node is evaluated.
	tookNominatedNode bool
}

func newRecorder(inner framework.Framework) *recorder {
	r := &recorder{Framework: inner, weights: map[string]int64{}, victims: takeOverPreemption(inner), bound: make(chan struct{}, 1)}
	for _, plugin := range inner.ListPlugins().Score.Enabled {
		r.weights[plugin.Name] = int64(plugin.Weight)
	}
	return r
}

// begin clears the previous attempt.
func (r *recorder) begin(members []*framework.QueuedPodInfo) {
	r.attempt, r.group = newAttempt(), newGroupLog(members)
}

func newAttempt() *attempt { return &attempt{filtered: map[string]*fwk.Status{}} }

func (r *recorder) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	if state.IsPodGroupSchedulingCycle() {
		r.attempt = r.group.begin(state, pod)
	}
	result, status, plugins := r.Framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		r.attempt.preFilter = status
	} else if !result.AllNodes() {
		r.attempt.narrowed, r.attempt.narrowedBy = result.NodeNames, sets.List(plugins)
	}
	return result, status, plugins
}

func (r *recorder) RunFilterPluginsWithNominatedPods(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	status := r.Framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	isFirst := len(r.attempt.filtered) == 0
	isNominated := isFirst && info.Node().Name == pod.Status.NominatedNodeName
	r.attempt.tookNominatedNode = isNominated && status.IsSuccess()
	if isNominated && r.attempt.narrowed != nil && status.IsRejected() {
		// Upstream lists the plugin that rejected the nominated node among the plugins that narrowed the search.
		r.attempt.narrowedBy = sets.List(sets.New(r.attempt.narrowedBy...).Insert(status.Plugin()))
	}
	if status.IsSuccess() {
		r.attempt.filtered[info.Node().Name] = nil
	} else {
		r.attempt.filtered[info.Node().Name] = status
	}
	return status
}

func (r *recorder) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	scores, status := r.Framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return scores, status
	}
	if r.attempt.narrowed != nil {
		r.attempt.tied = preferFirst(scores, r.nodeOrder())
	}
	r.attempt.scores = append([]fwk.NodePluginScores(nil), scores...)
	return scores, status
}

// preferFirst resolves ties for the first node in node order, with the number that upstream reserves for random
// tie-breaking, and returns the nodes with the highest score if there are several.
func preferFirst(scores []fwk.NodePluginScores, order map[string]int) []string {
	var tied []string
	var best int64
	for i := range scores {
		scores[i].Randomizer = len(order) - order[scores[i].Name]
		if scores[i].TotalScore > best || i == 0 {
			best, tied = scores[i].TotalScore, nil
		}
		if scores[i].TotalScore == best {
			tied = append(tied, scores[i].Name)
		}
	}
	if len(tied) < 2 {
		return nil
	}
	sort.Slice(tied, func(a, b int) bool { return order[tied[a]] < order[tied[b]] })
	return tied
}

// nodeOrder returns the index of each node in the snapshot: order of appearance, zones in turn.
func (r *recorder) nodeOrder() map[string]int {
	order := map[string]int{}
	for i, info := range nodesOf(r.Framework) {
		order[info.Node().Name] = i
	}
	return order
}

// nodesOf lists the nodes that an attempt could evaluate, in node order.
func (a *attempt) nodesOf(handle fwk.Handle) []fwk.NodeInfo {
	if a.within != nil {
		return a.within.Nodes
	}
	return nodesOf(handle)
}

func nodesOf(handle fwk.Handle) []fwk.NodeInfo {
	infos, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		panic(fmt.Errorf("listing the snapshot: %w", err))
	}
	return infos
}

func (r *recorder) RunPostFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	r.victims.names = nil
	result, status := r.Framework.RunPostFilterPlugins(ctx, state, pod, orderedStatuses{statuses, r.nodeOrder()})
	if status.IsSuccess() && result != nil && result.NominatingInfo != nil && result.NominatedNodeName != "" {
		victims := append([]string{}, r.victims.names...)
		sort.Strings(victims)
		r.attempt.nomination = &nomination{NominatedNode: result.NominatedNodeName, Victims: victims}
	}
	return result, status
}

func (r *recorder) RunPermitPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) (waits permitWaits, status *fwk.Status) {
	waits, status = r.Framework.RunPermitPlugins(ctx, state, pod, nodeName)
	if status.IsSuccess() || status.IsWait() {
		if simulated, ok := r.group.byState[state]; ok {
			r.attempt = simulated
			r.group.placed[keyOf(pod)] = simulated
		}
		r.attempt.node = nodeName
	}
	return waits, status
}

// The binding cycle does not wait and does not write. The pod is assumed, and its claims and volumes are reserved, for
// the rest of the pass.

func (r *recorder) RunPreBindPreFlights(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return fwk.NewStatus(fwk.Skip)
}
func (r *recorder) WillWaitOnPermit(context.Context, *corev1.Pod) bool    { return false }
func (r *recorder) WaitOnPermit(context.Context, *corev1.Pod) *fwk.Status { return nil }
func (r *recorder) RunPreBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}
func (r *recorder) RunBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	return nil
}
func (r *recorder) RunPostBindPlugins(context.Context, fwk.CycleState, *corev1.Pod, string) {
	r.bound <- struct{}{}
}
