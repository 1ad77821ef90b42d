//go:build !before1.37

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// history is a sequence of steps of the scheduling queue: a line of the queue stream.
type history struct {
	ID           json.RawMessage `json:"id"`
	Config       json.RawMessage `json:"config"`
	FeatureGates map[string]bool `json:"featureGates"`
	Steps        []step          `json:"steps"`
}

type story struct {
	ID    json.RawMessage `json:"id"`
	Steps []report        `json:"steps,omitzero"`
	Error string          `json:"error,omitempty"`
}

func answerQueue(line []byte) any {
	var asked history
	if err := json.Unmarshal(line, &asked); err != nil {
		return story{Error: "not a history: " + err.Error()}
	}
	reports, err := guarded(asked.replay)
	if err != nil {
		return story{ID: asked.ID, Error: err.Error()}
	}
	return story{ID: asked.ID, Steps: reports}
}

func (h history) replay() ([]report, error) {
	restore, err := setFeatureGates(h.FeatureGates)
	if err != nil {
		return nil, err
	}
	defer restore()
	text, err := configText(h.Config)
	if err != nil {
		return nil, err
	}
	config, err := loadConfig(text)
	if err != nil {
		return nil, err
	}
	searchAllNodes(config)
	c, err := newCluster(config)
	if err != nil {
		return nil, err
	}
	r := newReplay(c)
	reports := []report{}
	for i, step := range h.Steps {
		told, err := r.do(step)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("steps[%d] (%s): %w", i, step.Do, err), c.close())
		}
		reports = append(reports, *told)
	}
	return reports, c.close()
}

// replay is a running history.
type replay struct {
	*pass
	ctx      context.Context
	logger   klog.Logger
	made     *creation
	classes  []runtime.Object
	inFlight map[string]*framework.QueuedPodInfo
	groups   map[string]*framework.QueuedPodGroupInfo // popped
}

func newReplay(c *cluster) *replay {
	p := newPass(c)
	p.carriesNomination = true
	logger := klog.Background()
	return &replay{
		pass:     p,
		ctx:      klog.NewContext(context.Background(), logger),
		logger:   logger,
		made:     newCreation(),
		inFlight: map[string]*framework.QueuedPodInfo{},
		groups:   map[string]*framework.QueuedPodGroupInfo{},
	}
}

// apply creates an object, or updates the object with this name, which keeps its uid.
func (r *replay) apply(raw json.RawMessage) error {
	obj, err := r.object(raw)
	if err != nil {
		return err
	}
	if err := r.inherit(obj); err != nil {
		return err
	}
	for _, namespace := range r.made.missingNamespaces([]runtime.Object{obj}) {
		if known, err := r.existing(namespace); err != nil || known != nil {
			continue
		}
		if err := r.tell(namespace); err != nil {
			return err
		}
	}
	switch typed := obj.(type) {
	case *schedulingv1.PriorityClass:
		r.classes = append(r.classes, typed)
	default:
		pods, err := newPodCreation(r.classes)
		if err != nil {
			return err
		}
		if obj, err = pods.admit(obj); err != nil {
			return err
		}
		if hasEnded(obj) {
			return r.world.remove(obj)
		}
	}
	return r.tell(obj)
}

// object decodes an object; a name may occur several times in a history.
func (r *replay) object(raw json.RawMessage) (runtime.Object, error) {
	clear(r.made.seen)
	obj, err := r.made.decode(raw)
	if err == nil && obj == nil {
		err = errors.New("the scheduler does not use objects of this kind")
	}
	return obj, err
}

func (r *replay) existing(obj runtime.Object) (any, error) {
	told, err := r.world.informerOf(obj)
	if err != nil {
		return nil, err
	}
	known, exists, err := told.store.Get(obj)
	if err != nil || !exists {
		return nil, err
	}
	return known, nil
}

// inherit sets the uid and creation time of an update to those of the existing object, unless the update has a uid.
func (r *replay) inherit(obj runtime.Object) error {
	known, err := r.existing(obj)
	if err != nil || known == nil {
		return err
	}
	before, after := known.(metaObject), obj.(metaObject)
	if fresh := fmt.Sprintf("uid-%d", r.made.count-1); string(after.GetUID()) == fresh {
		after.SetUID(before.GetUID())
		after.SetCreationTimestamp(before.GetCreationTimestamp())
	}
	return nil
}
