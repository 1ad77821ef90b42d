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
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// decide tries every pending pod of an input once and returns the decisions.
func decide(config *schedulerconfig.KubeSchedulerConfiguration, raws []json.RawMessage) ([]decision, error) {
	objs, err := load(raws)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(config)
	if err != nil {
		return nil, err
	}
	pass := newPass(c)
	pass.decided = sets.New[string]()
	for _, obj := range objs {
		if err := c.tell(obj); err != nil {
			return nil, errors.Join(err, c.close())
		}
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
			pass.pending = append(pass.pending, pod)
			// The queue orders pods of equal priority by when they came.
			c.clock.Step(time.Second)
		}
	}
	decisions := pass.run(context.Background())
	return decisions, c.close()
}

// pass is one trip through the queue, each pod having one turn; with nominations carried out and decided left nil, it is
// any number of scheduling cycles.
type pass struct {
	*cluster
	pending           []*corev1.Pod
	decided           sets.Set[string]
	carriesNomination bool

	current *framework.QueuedPodInfo
	failure *fwk.Status
}

// newPass puts a recorder around every profile and itself around the scheduler's queue and failure handling.
func newPass(c *cluster) *pass {
	p := &pass{cluster: c}
	for name, profile := range c.scheduler.Profiles {
		c.scheduler.Profiles[name] = newRecorder(profile)
	}
	next := c.scheduler.NextEntity
	c.scheduler.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		entity, err := next(logger)
		p.current, _ = entity.(*framework.QueuedPodInfo)
		return entity, err
	}
	handleFailure := c.scheduler.FailureHandler
	c.scheduler.FailureHandler = func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		p.failure = status
		if !p.carriesNomination {
			// A nomination of this pass is reported only, one the pod came with stays.
			nominating = nil
		}
		handleFailure(ctx, profile, pod, status, nominating, start)
	}
	return p
}

func (p *pass) run(ctx context.Context) []decision {
	ctx = klog.NewContext(ctx, klog.Background())
	decisions := []decision{}
	for len(p.scheduler.SchedulingQueue.PodsInActiveQ()) > 0 {
		if decided := p.tryNext(ctx); decided != nil {
			decisions = append(decisions, *decided)
		}
	}
	return append(decisions, p.gated()...)
}

// tryNext runs one scheduling cycle, nil if it came to nothing: the pod is being deleted, or has had its turn.
func (p *pass) tryNext(ctx context.Context) *decision {
	for _, profile := range p.scheduler.Profiles {
		profile.(*recorder).begin()
	}
	p.current, p.failure, p.events.failedScheduling = nil, nil, ""
	p.scheduler.ScheduleOne(ctx)
	if p.current == nil {
		panic(errors.New("the queue handed out something that is not a pod"))
	}
	pod := p.current.Pod
	seen, ok := p.scheduler.Profiles[pod.Spec.SchedulerName].(*recorder)
	if !ok || p.decided.Has(keyOf(pod)) || (p.failure == nil && seen.attempt.node == "") {
		return nil
	}
	if p.decided != nil {
		p.decided.Insert(keyOf(pod))
	}
	if p.failure == nil {
		<-seen.bound
	}
	return p.describe(pod, seen)
}

func (p *pass) describe(pod *corev1.Pod, seen *recorder) *decision {
	made := &decision{Pod: keyOf(pod), Profile: pod.Spec.SchedulerName, Result: resultScheduled}
	if p.failure == nil {
		made.Node, made.Tied = seen.attempt.node, seen.attempt.tied
	} else {
		p.describeFailure(made)
	}
	if made.Result == resultError {
		return made
	}
	made.PostFilter = seen.attempt.nomination
	if seen.attempt.preFilter != nil {
		rejected := rejectionOf(seen.attempt.preFilter)
		made.PreFilter = &rejected
	} else {
		made.Nodes = seen.describeNodes()
	}
	return made
}

func (p *pass) describeFailure(made *decision) {
	made.Result, made.Message = resultError, p.events.failedScheduling
	if p.failure.IsRejected() {
		made.Result = resultUnschedulable
	}
	var fit *framework.FitError
	if errors.As(p.failure.AsError(), &fit) {
		made.UnschedulablePlugins = sets.List(fit.Diagnosis.UnschedulablePlugins)
	} else if !errors.Is(p.failure.AsError(), scheduler.ErrNoNodesAvailable) {
		made.Result = resultError
	}
}

// describeNodes says what is known of each node that was looked at, or left out by PreFilter.
func (r *recorder) describeNodes() map[string]node {
	nodes := map[string]node{}
	for name, status := range r.attempt.filtered {
		if status != nil {
			nodes[name] = node{rejection: rejectionOf(status)}
		}
	}
	if r.attempt.narrowed != nil && !r.attempt.tookNominatedNode {
		r.describeNodesLeftOut(nodes)
	}
	for _, scored := range r.attempt.scores {
		nodes[scored.Name] = r.describeScores(scored)
	}
	if len(r.attempt.scores) == 0 && r.attempt.node != "" {
		nodes[r.attempt.node] = node{}
	}
	return nodes
}

// describeNodesLeftOut gives the nodes PreFilter left out the status upstream gives them.
func (r *recorder) describeNodesLeftOut(nodes map[string]node) {
	reason := fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", r.attempt.narrowedBy)
	for _, info := range nodesOf(r.Framework) {
		name := info.Node().Name
		// A nominated node is tried even so, and then has a status of its own.
		if _, tried := r.attempt.filtered[name]; !tried && !r.attempt.narrowed.Has(name) {
			nodes[name] = node{rejection: rejection{Code: fwk.UnschedulableAndUnresolvable.String(), Reasons: []string{reason}}}
		}
	}
}

func (r *recorder) describeScores(scored fwk.NodePluginScores) node {
	total := scored.TotalScore
	described := node{Total: &total, Scores: map[string]score{}}
	for i, weighted := range scored.Scores {
		described.Scores[weighted.Name] = score{
			Raw:        scored.RawScores[i].Score,
			Normalized: weighted.Score / r.weights[weighted.Name],
			Weighted:   weighted.Score,
		}
	}
	return described
}

// gated lists, in order of appearance, the pods no plugin let into the queue.
func (p *pass) gated() []decision {
	var decisions []decision
	for _, pod := range p.pending {
		queued, ok := p.scheduler.SchedulingQueue.GetPod(pod.Name, pod.Namespace, nil)
		if !ok || !queued.Gated() || pod.DeletionTimestamp != nil || p.decided.Has(keyOf(pod)) {
			continue
		}
		decisions = append(decisions, decision{
			Pod: keyOf(pod), Profile: pod.Spec.SchedulerName, Result: resultGated,
			UnschedulablePlugins: sets.List(queued.UnschedulablePlugins),
		})
	}
	return decisions
}
