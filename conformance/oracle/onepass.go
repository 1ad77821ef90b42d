package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// outcome contains the decisions of a pass on all pods and groups.
type outcome struct {
	decisions []decision
	groups    []groupDecision
}

// decide tries each pending pod of an input once, members of a group together, and returns the decisions.
func decide(config *schedulerconfig.KubeSchedulerConfiguration, raws []json.RawMessage) (outcome, error) {
	objs, err := load(raws)
	if err != nil {
		return outcome{}, err
	}
	c, err := newCluster(config)
	if err != nil {
		return outcome{}, err
	}
	pass := newPass(c)
	pass.decided = map[string]int{}
	for _, obj := range objs {
		if err := c.tell(obj); err != nil {
			return outcome{}, errors.Join(err, c.close())
		}
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
			pass.pending = append(pass.pending, pod)
			// The queue orders pods of equal priority by arrival.
			c.clock.Step(time.Second)
		}
	}
	made := pass.run(context.Background())
	return made, c.close()
}

// pass is one pass through the queue, with one attempt for each entity. If nominations are carried out and decided is nil,
// it is any number of scheduling cycles.
type pass struct {
	*cluster
	queue             *internalqueue.PriorityQueue
	pending           []*corev1.Pod
	decided           map[string]int // the index of a pod's decision
	carriesNomination bool

	current  entity
	members  []*framework.QueuedPodInfo // of the current entity, in the order of their attempts
	failures map[string]*fwk.Status
	finished *fwk.Status // the final status of the current group's attempt
}

// newPass wraps a recorder around each profile, and itself around the scheduler's queue and failure handling.
func newPass(c *cluster) *pass {
	p := &pass{cluster: c, queue: c.scheduler.SchedulingQueue.(*internalqueue.PriorityQueue), failures: map[string]*fwk.Status{}}
	for name, profile := range c.scheduler.Profiles {
		c.scheduler.Profiles[name] = newRecorder(profile)
	}
	p.watchQueue()
	handleFailure := c.scheduler.FailureHandler
	c.scheduler.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		p.failures[keyOf(pod.Pod)] = status
		if !p.carriesNomination {
			// A nomination of this pass is only reported; an initial nomination is kept.
			nominating = nil
		}
		handleFailure(ctx, profile, pod, status, nominating, start)
	}
	return p
}

// begin clears the previous attempt.
func (p *pass) begin(popped entity) {
	p.current, p.members, p.failures, p.finished = popped, membersOf(popped), map[string]*fwk.Status{}, nil
	p.events.failedScheduling, p.conditions = map[string]string{}, map[string]condition{}
	for _, profile := range p.scheduler.Profiles {
		profile.(*recorder).begin(p.members)
	}
}

func (p *pass) run(ctx context.Context) outcome {
	ctx = klog.NewContext(ctx, klog.Background())
	made := outcome{decisions: []decision{}}
	for len(p.scheduler.SchedulingQueue.PodsInActiveQ()) > 0 {
		decisions, group := p.tryNext(ctx)
		for _, decided := range decisions {
			p.keep(&made, decided, group != nil)
		}
		if group != nil {
			made.groups = append(made.groups, *group)
		}
	}
	made.decisions = append(made.decisions, p.notTried()...)
	return made
}

// keep adds a decision. The rest of a partly placed group is retried immediately. Its last decision counts.
func (p *pass) keep(made *outcome, decided decision, isMember bool) {
	place, again := p.decided[decided.Pod]
	switch {
	case !again:
		p.decided[decided.Pod] = len(made.decisions)
		made.decisions = append(made.decisions, decided)
	case isMember:
		made.decisions[place] = decided
	}
}

// tryNext runs one scheduling cycle. It has no decision if the pod is being deleted.
func (p *pass) tryNext(ctx context.Context) ([]decision, *groupDecision) {
	p.scheduler.ScheduleOne(ctx)
	if group, ok := p.currentGroup(); ok {
		return p.describeGroup(group)
	}
	pod := p.members[0].Pod
	seen, ok := p.scheduler.Profiles[pod.Spec.SchedulerName].(*recorder)
	if !ok || (p.failures[keyOf(pod)] == nil && seen.attempt.node == "") {
		return nil, nil
	}
	if p.failures[keyOf(pod)] == nil {
		<-seen.bound
	}
	return []decision{p.describe(pod, seen, seen.attempt)}, nil
}

// describe returns the decision of one attempt.
func (p *pass) describe(pod *corev1.Pod, seen *recorder, tried *attempt) decision {
	made := decision{Pod: keyOf(pod), Profile: pod.Spec.SchedulerName, Result: resultScheduled}
	if status := p.failures[made.Pod]; status != nil {
		p.describeFailure(&made, status)
	} else {
		made.Node, made.Tied = tried.node, tried.tied
	}
	if made.Result == resultError || tried == nil {
		return made
	}
	made.PostFilter = tried.nomination
	if tried.preFilter != nil {
		rejected := rejectionOf(tried.preFilter)
		made.PreFilter = &rejected
	} else {
		made.Nodes = seen.describeNodes(tried)
	}
	return made
}

func (p *pass) describeFailure(made *decision, status *fwk.Status) {
	made.Result, made.Message = resultError, p.events.failedScheduling[made.Pod]
	if status.IsRejected() {
		made.Result = resultUnschedulable
	}
	var fit *framework.FitError
	_, isGroup := p.currentGroup()
	if errors.As(status.AsError(), &fit) {
		made.UnschedulablePlugins = sets.List(fit.Diagnosis.UnschedulablePlugins)
	} else if !isGroup && !errors.Is(status.AsError(), scheduler.ErrNoNodesAvailable) {
		made.Result = resultError
	}
}

// describeNodes returns the result for each node that was evaluated, or excluded by PreFilter.
func (r *recorder) describeNodes(tried *attempt) map[string]node {
	nodes := map[string]node{}
	for name, status := range tried.filtered {
		if status != nil {
			nodes[name] = node{rejection: rejectionOf(status)}
		}
	}
	if tried.narrowed != nil && !tried.tookNominatedNode {
		r.describeNodesLeftOut(tried, nodes)
	}
	for _, scored := range tried.scores {
		nodes[scored.Name] = r.describeScores(scored)
	}
	if len(tried.scores) == 0 && tried.node != "" {
		nodes[tried.node] = node{}
	}
	return nodes
}

// describeNodesLeftOut sets upstream's status for nodes that PreFilter excluded.
func (r *recorder) describeNodesLeftOut(tried *attempt, nodes map[string]node) {
	reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", tried.narrowedBy)
	for _, info := range tried.nodesOf(r.Framework) {
		name := info.Node().Name
		// A nominated node is tried nevertheless, and then has a separate status.
		if _, looked := tried.filtered[name]; !looked && !tried.narrowed.Has(name) {
			nodes[name] = node{rejection: rejection{Code: fwk.UnschedulableAndUnresolvable.String(), Reasons: []string{reason}}}
		}
	}
}

func (r *recorder) describeScores(scored fwk.NodePluginScores) node {
	total := scored.TotalScore
	described := node{Total: &total, Scores: map[string]score{}}
	for i, weighted := range scored.Scores {
		described.Scores[weighted.Name] = score{
			Raw:        rawScore(scored, i),
			Normalized: weighted.Score / r.weights[weighted.Name],
			Weighted:   weighted.Score,
		}
	}
	return described
}

// notTried lists gated pods and pods of missing groups, in order of appearance.
func (p *pass) notTried() []decision {
	var decisions []decision
	waiting := func(pods []*corev1.Pod) sets.Set[string] {
		names := sets.New[string]()
		for _, pod := range pods {
			names.Insert(keyOf(pod))
		}
		return names
	}
	gated, incomplete := waiting(p.queue.UnschedulablePods()), waiting(p.incompletePods())
	for _, pod := range p.pending {
		key := keyOf(pod)
		queued, ok := p.queuedPod(pod)
		if _, decided := p.decided[key]; !ok || decided || pod.DeletionTimestamp != nil {
			continue
		}
		made := decision{Pod: key, Profile: pod.Spec.SchedulerName, UnschedulablePlugins: sets.List(queued.UnschedulablePlugins)}
		switch {
		case incomplete.Has(key):
			made.Result = resultIncomplete
		case gated.Has(key):
			// One gated member gates its group.
			made.Result = resultGated
		default:
			continue
		}
		decisions = append(decisions, made)
	}
	return decisions
}
