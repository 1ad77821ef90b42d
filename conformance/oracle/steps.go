//go:build !before1.37

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

type metaObject = metav1.Object

// step is one step of a history; README.md lists the fields for each value of Do.
type step struct {
	Do      string          `json:"do"`
	Object  json.RawMessage `json:"object"`
	Pod     string          `json:"pod"`
	Pods    []string        `json:"pods"`
	Group   string          `json:"group"`
	Result  string          `json:"result"`
	Node    string          `json:"node"`
	Seconds float64         `json:"seconds"`
	Flush   *bool           `json:"flush"`

	UnschedulablePlugins []string `json:"unschedulablePlugins"`
	PendingPlugins       []string `json:"pendingPlugins"`
	NominatedNode        *string  `json:"nominatedNode"`

	Event eventName       `json:"event"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

type eventName struct {
	Resource string   `json:"resource"`
	Actions  []string `json:"actions"`
}

// flushEvery is the interval of the queue's checks for pods that are unschedulable for too long.
const flushEvery = 30 * time.Second

// do executes a step and reports the queue of each pod.
func (r *replay) do(s step) (*report, error) {
	told := &report{}
	if err := r.carryOut(s, told); err != nil {
		return nil, err
	}
	r.describeQueue(told)
	return told, nil
}

func (r *replay) carryOut(s step, told *report) error {
	switch s.Do {
	case "apply":
		return r.apply(s.Object)
	case "delete":
		obj, err := r.object(s.Object)
		if err != nil {
			return err
		}
		return r.world.remove(obj)
	case "pop":
		return r.pop(told)
	case "fail":
		return r.fail(s)
	case "finish":
		return r.finish(s)
	case "succeed":
		return r.succeed(s)
	case "schedule":
		return r.schedule(told)
	case "advance":
		r.advance(s)
	case "flushBackoff":
		flushBackoff(r.queue, r.logger)
	case "flushUnschedulable":
		flushUnschedulable(r.queue, r.logger)
	case "activate":
		return r.activate(s.Pods)
	case "move":
		return r.move(s)
	default:
		return errors.New("unknown step")
	}
	return nil
}

// pop removes the next pod or group from the queue, if there is one: the queue itself would block.
func (r *replay) pop(told *report) error {
	if !r.hasNext() {
		return nil
	}
	entity, err := r.queue.Pop(r.logger)
	if err != nil {
		return err
	}
	for _, member := range membersOf(entity) {
		told.Popped = keyOf(member.Pod)
		r.inFlight[told.Popped] = member
		told.Members = append(told.Members, told.Popped)
	}
	if group, ok := entity.(*framework.QueuedPodGroupInfo); ok {
		told.Popped = group.Namespace + "/" + group.Name
		r.groups[told.Popped] = group
	} else {
		told.Members = nil
	}
	return nil
}

// finish ends the attempt of a popped group: these members are requeued, the others are assumed on a node.
func (r *replay) finish(s step) error {
	group, ok := r.groups[s.Group]
	if !ok {
		return fmt.Errorf("group %q has not been popped", s.Group)
	}
	delete(r.groups, s.Group)
	back := sets.New(s.Pods...)
	for _, member := range membersOf(group) {
		one := s
		one.Pod = keyOf(member.Pod)
		act := r.succeed
		if back.Has(one.Pod) {
			act = r.fail
		}
		if err := act(one); err != nil {
			return err
		}
	}
	status := fwk.NewStatus(fwk.Success)
	switch s.Result {
	case resultScheduled:
	case resultUnschedulable:
		status = fwk.NewStatus(fwk.Unschedulable, "the group does not fit")
	case resultError:
		status = fwk.AsStatus(errors.New("the attempt failed"))
	default:
		return fmt.Errorf("unknown result %q", s.Result)
	}
	return r.queue.AddAttemptedPodGroupIfNeeded(r.logger, group, r.queue.SchedulingCycle(), status)
}

func (r *replay) hasNext() bool {
	flying := sets.New[string]()
	for _, pod := range r.queue.InFlightPods() {
		flying.Insert(string(pod.UID))
	}
	for _, pod := range append(r.queue.PodsInActiveQ(), r.queue.PodsInBackoffQ()...) {
		if queued, ok := r.queuedPod(pod); ok && !flying.Has(string(pod.UID)) && r.placeOf(queued) != placeErrorBackoff {
			return true
		}
	}
	return false
}

// fail ends the attempt of a popped pod as the scheduler would: rejected by plugins, or with an error without plugins.
func (r *replay) fail(s step) error {
	pod, profile, err := r.popped(s.Pod)
	if err != nil {
		return err
	}
	status := fwk.AsStatus(errors.New("the attempt failed"))
	if len(s.UnschedulablePlugins)+len(s.PendingPlugins) > 0 {
		status = fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{Pod: pod.Pod, Diagnosis: framework.Diagnosis{
			NodeToStatus:         framework.NewDefaultNodeToStatus(),
			UnschedulablePlugins: sets.New(s.UnschedulablePlugins...),
			PendingPlugins:       sets.New(s.PendingPlugins...),
		}})
	}
	var nominating *fwk.NominatingInfo
	if s.NominatedNode != nil {
		nominating = &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: *s.NominatedNode}
	}
	r.scheduler.FailureHandler(r.ctx, profile, pod, status, nominating, r.clock.Now())
	return nil
}

// succeed ends a popped pod's attempt by assuming it on a node.
func (r *replay) succeed(s step) error {
	pod, _, err := r.popped(s.Pod)
	if err != nil {
		return err
	}
	assumed := pod.Pod.DeepCopy()
	assumed.Spec.NodeName = s.Node
	if err := r.scheduler.Cache.AssumePod(r.logger, assumed); err != nil {
		return err
	}
	r.queue.DeleteNominatedPodIfExists(assumed)
	r.queue.Done(assumed.UID)
	return nil
}

func (r *replay) popped(name string) (*framework.QueuedPodInfo, framework.Framework, error) {
	pod, ok := r.inFlight[name]
	if !ok {
		return nil, nil, fmt.Errorf("pod %q has not been popped", name)
	}
	delete(r.inFlight, name)
	profile, ok := r.scheduler.Profiles[pod.Pod.Spec.SchedulerName]
	if !ok {
		return nil, nil, fmt.Errorf("pod %q has no profile", name)
	}
	return pod, profile, nil
}

// schedule pops a pod and runs a complete scheduling cycle.
func (r *replay) schedule(told *report) error {
	if r.hasNext() {
		decisions, group := r.tryNext(r.ctx)
		if told.Group = group; group != nil {
			told.Decisions = decisions
		} else if len(decisions) > 0 {
			told.Decision = &decisions[0]
		}
	}
	return nil
}

// advance lets time pass and runs the queue's timers, unless disabled.
func (r *replay) advance(s step) {
	target := r.clock.Now().Add(time.Duration(math.Round(s.Seconds * float64(time.Second))))
	for s.Flush == nil || *s.Flush {
		tick := r.clock.Now().Truncate(time.Second).Add(time.Second)
		if tick.After(target) {
			break
		}
		r.clock.SetTime(tick)
		flushBackoff(r.queue, r.logger)
		if tick.Sub(epoch)%flushEvery == 0 {
			flushUnschedulable(r.queue, r.logger)
		}
	}
	r.clock.SetTime(target)
}

func (r *replay) activate(names []string) error {
	pods := map[string]*corev1.Pod{}
	for _, name := range names {
		told := r.world.byType[podType]
		obj, exists, err := told.store.GetByKey(name)
		if err != nil || !exists {
			return fmt.Errorf("unknown pod %q", name)
		}
		pods[name] = obj.(*corev1.Pod)
	}
	r.queue.Activate(r.logger, pods)
	return nil
}

// move sends an event to the queue that no informer reported.
func (r *replay) move(s step) error {
	event := fwk.ClusterEvent{Resource: fwk.EventResource(s.Event.Resource)}
	for _, name := range s.Event.Actions {
		action, ok := actions[name]
		if !ok {
			return fmt.Errorf("unknown action %q", name)
		}
		event.ActionType |= action
	}
	before, err := r.optional(s.Old)
	if err != nil {
		return err
	}
	after, err := r.optional(s.New)
	if err != nil {
		return err
	}
	r.queue.MoveAllToActiveOrBackoffQueue(r.logger, event, before, after, nil)
	return nil
}

// optional decodes an object that may be missing; the result is then a nil interface, which upstream checks.
func (r *replay) optional(raw json.RawMessage) (any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	obj, err := r.object(raw)
	if err != nil {
		return nil, err
	}
	return obj, r.inherit(obj)
}

// actions maps upstream's names to action types.
var actions = func() map[string]fwk.ActionType {
	named := map[string]fwk.ActionType{"Update": fwk.Update, "All": fwk.All}
	for bit := fwk.ActionType(1); bit <= fwk.All; bit <<= 1 {
		if name := bit.String(); name != "" {
			named[name] = bit
		}
	}
	return named
}()
