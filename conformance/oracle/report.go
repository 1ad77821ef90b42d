//go:build !before1.37

package main

import (
	"reflect"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// The queues of a pod.
const (
	placeActive        = "active"
	placeBackoff       = "backoff"
	placeErrorBackoff  = "errorBackoff"
	placeUnschedulable = "unschedulable"
	placeGated         = "gated"
	placeInFlight      = "inFlight"
	placePending       = "pending"    // until the attempt of its group ends
	placeIncomplete    = "incomplete" // until its group and its parents exist
)

var podType = reflect.TypeOf(&corev1.Pod{})

// report contains the queue of each pod after a step of a history. Times are seconds since the start of the history.
type report struct {
	Time      float64             `json:"time"`
	Popped    string              `json:"popped,omitempty"` // a pod or a group
	Members   []string            `json:"members,omitempty"`
	Decision  *decision           `json:"decision,omitempty"`
	Group     *groupDecision      `json:"group,omitempty"`
	Decisions []decision          `json:"decisions,omitempty"` // of the members of Group
	Pods      map[string]queued   `json:"pods"`
	Groups    map[string]queued   `json:"groups,omitempty"`
	Nominated map[string][]string `json:"nominated,omitempty"`
}

type queued struct {
	Queue                string   `json:"queue"`
	Attempts             int      `json:"attempts"`
	UnschedulableCount   int      `json:"unschedulableCount,omitempty"`
	ConsecutiveErrors    int      `json:"consecutiveErrors,omitempty"`
	Timestamp            float64  `json:"timestamp"`
	BackoffExpiration    *float64 `json:"backoffExpiration,omitempty"`
	UnschedulablePlugins []string `json:"unschedulablePlugins,omitempty"`
	PendingPlugins       []string `json:"pendingPlugins,omitempty"`
	GatingPlugin         string   `json:"gatingPlugin,omitempty"`
	Flushed              bool     `json:"flushed,omitempty"`
	Members              []string `json:"members,omitempty"` // of a group, in the order of their attempts
}

func (r *replay) describeQueue(told *report) {
	told.Time = r.since(r.clock.Now())
	told.Pods = map[string]queued{}
	for _, pod := range r.queue.InFlightPods() {
		if info, ok := r.inFlight[keyOf(pod)]; ok {
			told.Pods[keyOf(pod)] = r.describePod(info, placeInFlight)
		}
	}
	waiting, _ := r.queue.PendingPods()
	for _, pod := range waiting {
		if info, ok := r.queuedPod(pod); ok {
			told.Pods[keyOf(pod)] = r.describePod(info, r.placeOf(info))
		}
	}
	told.Groups = r.describeGroups()
	told.Nominated = r.nominations()
}

// placeOf returns the queue of a pending pod, from the queue's lists.
func (r *replay) placeOf(info *framework.QueuedPodInfo) string {
	isListed := func(pods []*corev1.Pod) bool {
		for _, pod := range pods {
			if keyOf(pod) == keyOf(info.Pod) {
				return true
			}
		}
		return false
	}
	switch {
	case isListed(r.queue.IncompletePodGroupPodsPods()):
		return placeIncomplete
	case isListed(r.queue.PendingPodGroupPods()):
		return placePending
	case isListed(r.queue.PodsInActiveQ()):
		return placeActive
	case isListed(r.queue.PodsInBackoffQ()):
		// The queue has two backoff queues and one list of both: pods without rejection are in the queue for errors.
		if info.UnschedulablePlugins.Len()+info.PendingPlugins.Len() == 0 || info.Pod.Spec.SchedulingGroup != nil {
			return placeErrorBackoff
		}
		return placeBackoff
	case info.Gated() || info.Pod.Spec.SchedulingGroup != nil:
		// Only gated groups are in this list.
		return placeGated
	}
	return placeUnschedulable
}

func (r *replay) describePod(info *framework.QueuedPodInfo, place string) queued {
	described := r.describeQueued(info.QueueingParams, place)
	described.UnschedulablePlugins, described.PendingPlugins = sets.List(info.UnschedulablePlugins), sets.List(info.PendingPlugins)
	if info.Pod.Spec.SchedulingGroup != nil {
		// The group determines the next attempt of a member.
		described.BackoffExpiration = nil
	}
	return described
}

func (r *replay) describeQueued(info framework.QueueingParams, place string) queued {
	described := queued{
		Queue:              place,
		Attempts:           info.Attempts,
		UnschedulableCount: info.UnschedulableCount,
		ConsecutiveErrors:  info.ConsecutiveErrorsCount,
		Timestamp:          r.since(info.Timestamp),
		GatingPlugin:       info.GatingPlugin,
		Flushed:            info.WasFlushedFromUnschedulable,
	}
	if place == placeBackoff || place == placeErrorBackoff {
		expiration := r.since(info.BackoffExpiration)
		described.BackoffExpiration = &expiration
	}
	return described
}

// describeGroups describes the pending groups, by the name of their root.
func (r *replay) describeGroups() map[string]queued {
	groups := map[string]queued{}
	for _, kind := range []reflect.Type{podGroupType, compositeType} {
		for _, obj := range r.world.byType[kind].store.List() {
			group, ok := r.queue.GetPodGroup(obj.(metaObject).GetName(), obj.(metaObject).GetNamespace(), fwk.PodGroupKeyType)
			if !ok {
				continue
			}
			members := membersOf(group)
			described := r.describeQueued(group.QueueingParams, r.placeOf(members[0]))
			for _, member := range members {
				described.Members = append(described.Members, keyOf(member.Pod))
			}
			groups[keyOf(obj)] = described
		}
	}
	return groups
}

// nominations lists the nominated pods of each node.
func (r *replay) nominations() map[string][]string {
	nominated := map[string][]string{}
	for _, obj := range r.world.byType[reflect.TypeOf(&corev1.Node{})].store.List() {
		name := keyOf(obj)
		for _, pod := range r.queue.NominatedPodsForNode(name) {
			nominated[name] = append(nominated[name], keyOf(pod.GetPod()))
		}
		sort.Strings(nominated[name])
	}
	return nominated
}

func (r *replay) since(moment time.Time) float64 { return moment.Sub(epoch).Seconds() }
