//go:build !before1.37

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// groupDecision is one attempt to place a group.
type groupDecision struct {
	Group      string               `json:"group"`
	Kind       string               `json:"kind"`
	Profile    string               `json:"profile"`
	Result     string               `json:"result"`
	Message    string               `json:"message,omitempty"`
	Pods       []string             `json:"pods"`
	Placements map[string]string    `json:"placements,omitempty"`
	Scored     []scoring            `json:"scored,omitempty"`
	Conditions map[string]condition `json:"conditions,omitempty"`
	PostFilter *groupNomination     `json:"postFilter,omitempty"`
}

// scoring is a choice among several feasible placements.
type scoring struct {
	Group  string                      `json:"group"`
	Tied   []string                    `json:"tied,omitempty"`
	Scores map[string]map[string]int64 `json:"scores"`
}

// condition is the PodGroupInitiallyScheduled condition of a group.
type condition struct {
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

type groupNomination struct {
	NominatedNodes map[string]string `json:"nominatedNodes"`
	Victims        []string          `json:"victims"`
}

// entity is an element of the scheduling queue.
type entity = framework.QueuedEntityInfo

var (
	podGroupType  = reflect.TypeOf(&schedulingv1beta1.PodGroup{})
	compositeType = reflect.TypeOf(&schedulingv1alpha3.CompositePodGroup{})
)

// membersOf lists the pods of an entity in the order of their attempts; those of a tree group by group.
func membersOf(popped entity) []*framework.QueuedPodInfo {
	group, ok := popped.(*framework.QueuedPodGroupInfo)
	if !ok {
		return []*framework.QueuedPodInfo{popped.(*framework.QueuedPodInfo)}
	}
	var members []*framework.QueuedPodInfo
	for _, leaf := range leavesOf(group.PodGroupInfo) {
		members = append(members, group.QueuedPodInfos[fwk.PodGroupKey(leaf.Namespace, leaf.Name)]...)
	}
	return members
}

func leavesOf(group *framework.PodGroupInfo) []*framework.PodGroupInfo {
	if group.CompositePodGroup == nil {
		return []*framework.PodGroupInfo{group}
	}
	var leaves []*framework.PodGroupInfo
	for _, child := range group.GetChildGroups() {
		leaves = append(leaves, leavesOf(child)...)
	}
	return leaves
}

// watchedQueue reports the final status of a group's attempt to the pass.
type watchedQueue struct {
	internalqueue.SchedulingQueue
	pass *pass
}

// watchQueue begins a record with each popped entity and stores the final status of groups.
func (p *pass) watchQueue() {
	p.scheduler.SchedulingQueue = &watchedQueue{p.scheduler.SchedulingQueue, p}
	next := p.scheduler.NextEntity
	p.scheduler.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		popped, err := next(logger)
		p.begin(popped)
		return popped, err
	}
}

func (p *pass) currentGroup() (*framework.QueuedPodGroupInfo, bool) {
	group, ok := p.current.(*framework.QueuedPodGroupInfo)
	return group, ok
}

func (q *watchedQueue) AddAttemptedPodGroupIfNeeded(logger klog.Logger, group *framework.QueuedPodGroupInfo, cycle int64, status *fwk.Status) error {
	q.pass.finished = status
	return q.SchedulingQueue.AddAttemptedPodGroupIfNeeded(logger, group, cycle, status)
}

// notePatch stores the condition that results from a patch of a group's status.
func (c *cluster) notePatch(patch clienttesting.PatchAction) {
	if patch.GetResource().Resource != "podgroups" || patch.GetSubresource() != "status" {
		return
	}
	var changed struct {
		Status struct {
			Conditions []map[string]any `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(patch.GetPatch(), &changed); err != nil {
		panic(fmt.Errorf("a patch of %s: %w", patch.GetName(), err))
	}
	key := patch.GetNamespace() + "/" + patch.GetName()
	for _, patched := range changed.Status.Conditions {
		if patched["type"] == schedulingv1beta1.PodGroupInitiallyScheduled {
			c.conditions[key] = c.conditionAfter(key, patched)
		}
	}
}

// conditionAfter merges a patch into the condition of a group: a patch contains only changes.
func (c *cluster) conditionAfter(key string, patched map[string]any) condition {
	var after condition
	if obj, exists, err := c.world.byType[podGroupType].store.GetByKey(key); err == nil && exists {
		for _, given := range obj.(*schedulingv1beta1.PodGroup).Status.Conditions {
			if given.Type == schedulingv1beta1.PodGroupInitiallyScheduled {
				after = condition{Status: string(given.Status), Reason: given.Reason, Message: given.Message}
			}
		}
	}
	for field, value := range map[string]*string{"status": &after.Status, "reason": &after.Reason, "message": &after.Message} {
		if text, ok := patched[field].(string); ok {
			*value = text
		}
	}
	return after
}

// describeGroup returns the decisions of a group's cycle on the group and on each of its members.
func (p *pass) describeGroup(group *framework.QueuedPodGroupInfo) ([]decision, *groupDecision) {
	seen, ok := p.scheduler.Profiles[p.members[0].Pod.Spec.SchedulerName].(*recorder)
	if !ok {
		return nil, nil
	}
	for range seen.group.placed {
		<-seen.bound
	}
	var decisions []decision
	pods := []string{}
	for _, member := range p.members {
		key := keyOf(member.Pod)
		placed, failure := seen.group.placed[key], p.failures[key]
		if placed == nil && failure == nil {
			// The member is being deleted.
			continue
		}
		pods = append(pods, key)
		tried := placed
		if failure != nil {
			tried = seen.group.attemptThatLedTo(key, failure)
		}
		decisions = append(decisions, p.describe(member.Pod, seen, tried))
	}
	if len(pods) == 0 {
		return nil, nil
	}
	kind := "PodGroup"
	if group.CompositePodGroup != nil || group.PodGroupInfo.Type == fwk.CompositePodGroupKeyType {
		kind = "CompositePodGroup"
	}
	made := &groupDecision{
		Group: group.Namespace + "/" + group.Name, Kind: kind, Profile: p.members[0].Pod.Spec.SchedulerName, Pods: pods,
		Placements: seen.group.chosen(p.members), Scored: seen.group.scored,
		Conditions: p.conditions, PostFilter: seen.group.nomination,
	}
	made.Result, made.Message = p.resultOf(seen.group)
	return decisions, made
}

// resultOf returns the result of a group's attempt. PostFilter may turn a rejection into an error, which the queue ignores.
func (p *pass) resultOf(log *groupLog) (result, message string) {
	switch status := p.finished; {
	case log.postFilter.IsError():
		return resultError, log.postFilter.AsError().Error()
	case status.IsSuccess():
		return resultScheduled, status.Message()
	case !status.IsRejected():
		return resultError, status.AsError().Error()
	case log.postFilter != nil && log.postFilter.IsSuccess():
		return resultWaiting, status.Message()
	default:
		return resultUnschedulable, status.Message()
	}
}

// groupLog records a group's cycle.
type groupLog struct {
	order       map[string]int // of members
	isRehearsal bool           // preemption repeats the cycle on a cluster without the victims, which is not reported

	attempts   map[string][]*attempt // of each member, one per placement
	byState    map[fwk.CycleState]*attempt
	placed     map[string]*attempt
	ahead      map[string][]*fwk.Placement // placements of a group that have not been tried
	placements map[fwk.PlacementCycleState]*fwk.Placement
	scored     []scoring
	postFilter *fwk.Status // nil if it did not run
	nomination *groupNomination
}

func newGroupLog(members []*framework.QueuedPodInfo) *groupLog {
	order := map[string]int{}
	for i, member := range members {
		order[keyOf(member.Pod)] = i
	}
	return &groupLog{
		order: order, attempts: map[string][]*attempt{}, byState: map[fwk.CycleState]*attempt{}, placed: map[string]*attempt{},
		ahead: map[string][]*fwk.Placement{}, placements: map[fwk.PlacementCycleState]*fwk.Placement{},
	}
}

// begin starts the record of a member's attempt in one placement.
func (g *groupLog) begin(state fwk.CycleState, pod *corev1.Pod) *attempt {
	begun := newAttempt()
	begun.pod, begun.within = pod, g.placements[state.GetPlacementCycleState()]
	if !g.isRehearsal {
		g.attempts[keyOf(pod)] = append(g.attempts[keyOf(pod)], begun)
		g.byState[state] = begun
	}
	return begun
}

// attemptThatLedTo returns the attempt with the statuses of a member: among several attempts, that with the same node statuses.
// It returns nil if the status is that of the group.
func (g *groupLog) attemptThatLedTo(key string, status *fwk.Status) *attempt {
	var fit *framework.FitError
	if !errors.As(status.AsError(), &fit) {
		return nil
	}
	tried := g.attempts[key]
	for _, candidate := range tried {
		if candidate.preFilter != nil && fit.Diagnosis.NodeToStatus.AbsentNodesStatus() == candidate.preFilter {
			return candidate
		}
		for name, verdict := range candidate.filtered {
			if verdict != nil && fit.Diagnosis.NodeToStatus.Get(name) == verdict {
				return candidate
			}
		}
	}
	// No node has a status: return the attempt in the placement of its group or, without one, the first attempt.
	for _, candidate := range tried {
		for _, placed := range g.placed {
			if placed.within == candidate.within && groupOf(placed.pod) == groupOf(candidate.pod) {
				return candidate
			}
		}
	}
	if len(tried) == 0 {
		return nil
	}
	return tried[0]
}

func groupOf(pod *corev1.Pod) string {
	return pod.Namespace + "/" + *pod.Spec.SchedulingGroup.PodGroupName
}

// chosen returns the placement of each group's members, if the groups define topology constraints.
func (g *groupLog) chosen(members []*framework.QueuedPodInfo) map[string]string {
	placements := map[string]string{}
	for _, member := range members {
		placed := g.placed[keyOf(member.Pod)]
		if placed != nil && placed.within != nil && placed.within.Name != "" {
			placements[groupOf(member.Pod)] = placed.within.Name
		}
	}
	return placements
}

// RunPlacementGeneratePlugins sorts placements by their first nodes; upstream's map has no order.
func (r *recorder) RunPlacementGeneratePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, nodes []fwk.NodeInfo) ([]*fwk.Placement, *fwk.Status) {
	placements, status := r.Framework.RunPlacementGeneratePlugins(ctx, state, group, nodes)
	order := map[string]int{}
	for i, info := range nodes {
		order[info.Node().Name] = i
	}
	sortPlacements(placements, order, func(placement *fwk.Placement) *fwk.Placement { return placement })
	r.group.ahead[group.GetKey()] = placements
	return placements, status
}

func sortPlacements[T any](items []T, order map[string]int, placementOf func(T) *fwk.Placement) {
	first := func(item T) int {
		placement := placementOf(item)
		if placement == nil || len(placement.Nodes) == 0 {
			return -1
		}
		return order[placement.Nodes[0].Node().Name]
	}
	sort.SliceStable(items, func(a, b int) bool { return first(items[a]) < first(items[b]) })
}

// RunPlacementFeasiblePlugins starts a placement, with a separate state.
func (r *recorder) RunPlacementFeasiblePlugins(ctx context.Context, state fwk.PlacementCycleState, group fwk.PodGroupInfo, progress framework.PlacementProgress) *fwk.Status {
	if _, begun := r.group.placements[state]; !begun {
		r.group.placements[state] = nil
		if ahead := r.group.ahead[group.GetKey()]; len(ahead) > 0 {
			r.group.placements[state], r.group.ahead[group.GetKey()] = ahead[0], ahead[1:]
		}
	}
	return r.Framework.RunPlacementFeasiblePlugins(ctx, state, group, progress)
}

// RunPlacementScorePlugins leaves one placement to choose: the first of those with the highest score, where upstream is random.
func (r *recorder) RunPlacementScorePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, found []*fwk.PodGroupAssignments, states []fwk.PlacementCycleState) ([]fwk.PlacementPluginScores, *fwk.Status) {
	scores, status := r.Framework.RunPlacementScorePlugins(ctx, state, group, found, states)
	if !status.IsSuccess() {
		return scores, status
	}
	sortPlacements(scores, r.nodeOrder(), func(scored fwk.PlacementPluginScores) *fwk.Placement { return scored.Placement })
	made := scoring{Group: group.GetNamespace() + "/" + group.GetName(), Scores: map[string]map[string]int64{}}
	best := scores[0]
	for _, scored := range scores {
		said := map[string]int64{"total": scored.TotalScore}
		for _, plugin := range scored.Scores {
			said[plugin.Name] = plugin.Score
		}
		made.Scores[scored.Placement.Name] = said
		if scored.TotalScore > best.TotalScore {
			best = scored
		}
	}
	for _, scored := range scores {
		if scored.TotalScore == best.TotalScore {
			made.Tied = append(made.Tied, scored.Placement.Name)
		}
	}
	if len(made.Tied) < 2 {
		made.Tied = nil
	}
	if !r.group.isRehearsal {
		r.group.scored = append(r.group.scored, made)
	}
	return []fwk.PlacementPluginScores{best}, status
}

func (r *recorder) RunPodGroupPostFilterPlugins(ctx context.Context, state *framework.CycleState, group fwk.PodGroupInfo, schedule fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	r.victims.names = nil
	r.group.isRehearsal = true
	defer func() { r.group.isRehearsal = false }()
	inOrder := func(ctx context.Context) (*fwk.PodGroupAssignments, *fwk.Status) {
		// The groups of a tree are in map order.
		found, status := schedule(ctx)
		sort.SliceStable(found.ProposedAssignments, func(a, b int) bool {
			return r.group.order[keyOf(found.ProposedAssignments[a].GetPod())] < r.group.order[keyOf(found.ProposedAssignments[b].GetPod())]
		})
		return found, status
	}
	result, status := r.Framework.RunPodGroupPostFilterPlugins(ctx, state, group, inOrder)
	r.group.postFilter = status
	if status == nil {
		r.group.postFilter = fwk.NewStatus(fwk.Success)
	}
	if status.IsSuccess() && result != nil {
		made := &groupNomination{NominatedNodes: map[string]string{}, Victims: append([]string{}, r.victims.names...)}
		for name, nominating := range result.NominatingInfos {
			made.NominatedNodes[name.String()] = nominating.NominatedNodeName
		}
		sort.Strings(made.Victims)
		r.group.nomination = made
	}
	return result, status
}
