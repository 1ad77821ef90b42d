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

// recorder stands between the scheduler and a profile's framework, passes every call on, and writes down the answers.
// It adds a few things of its own, most of them choices upstream leaves to chance: the winner among equal nodes of a narrowed
// search, the order of candidates for preemption, the order of a group's placements (see groups.go), and that binding ends
// without touching the API.
type recorder struct {
	framework.Framework
	weights map[string]int64
	attempt *attempt  // the latest
	group   *groupLog // what a group's cycle was seen to do
	victims *victimLog
	bound   chan struct{}
}

// attempt is what one pod's scheduling cycle was seen to do.
type attempt struct {
	pod        *corev1.Pod    // a member of a group; nil for a pod that is tried alone
	within     *fwk.Placement // the nodes a group is restricted to; nil for all
	preFilter  *fwk.Status
	narrowed   sets.Set[string]       // the nodes PreFilter left; nil for all
	narrowedBy []string               // the plugins that left them
	filtered   map[string]*fwk.Status // nil for a node that passed
	scores     []fwk.NodePluginScores
	tied       []string
	node       string
	nomination *nomination

	// The nominated node is tried before all others; when it fits, no other is looked at.
	tookNominatedNode bool
}

func newRecorder(inner framework.Framework) *recorder {
	r := &recorder{Framework: inner, weights: map[string]int64{}, victims: takeOverPreemption(inner), bound: make(chan struct{}, 1)}
	for _, plugin := range inner.ListPlugins().Score.Enabled {
		r.weights[plugin.Name] = int64(plugin.Weight)
	}
	return r
}

// begin forgets the previous attempt.
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
		// Upstream names the plugin that refused the nominated node among those that narrowed the search.
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

// preferFirst settles ties for the first node in node order, by the number upstream reserves for random tie-breaking, and
// returns the nodes that share the highest score, where there are several.
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

// nodeOrder gives each node's place in the snapshot: order of appearance, zones in turn.
func (r *recorder) nodeOrder() map[string]int {
	order := map[string]int{}
	for i, info := range nodesOf(r.Framework) {
		order[info.Node().Name] = i
	}
	return order
}

// nodesOf lists the nodes an attempt could look at, in node order.
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

// The binding cycle: nothing waits, nothing is written. The pod stays assumed, and its claims and volumes reserved, for
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
