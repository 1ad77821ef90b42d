package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingapiv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	podregistry "k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
)

// podCreation is the API server's path for new pods and groups: the Priority admission plugin, then PrepareForCreate of
// the registry (for a pod: pod-level requests, matchLabelKeys merged into selectors, fields of disabled gates removed).
type podCreation struct {
	priorities *priority.Plugin
}

// newPodCreation uses the priority classes of an input, and adds missing built-in classes.
func newPodCreation(objs []runtime.Object) (*podCreation, error) {
	w := newWorld(fake.NewSimpleClientset())
	given := map[string]bool{}
	for _, obj := range objs {
		if class, ok := obj.(*schedulingv1.PriorityClass); ok {
			given[class.Name] = true
			if err := w.apply(class); err != nil {
				return nil, err
			}
		}
	}
	for _, class := range schedulingapiv1.SystemPriorityClasses() {
		if given[class.Name] {
			continue
		}
		legacyscheme.Scheme.Default(class)
		if err := w.apply(class); err != nil {
			return nil, err
		}
	}
	plugin := priority.NewPlugin()
	plugin.SetExternalKubeInformerFactory(w)
	return &podCreation{priorities: plugin}, nil
}

// admit returns an object as the registry would store it, with its original status.
func (p *podCreation) admit(obj runtime.Object) (runtime.Object, error) {
	var err error
	created := obj
	if pod, ok := obj.(*corev1.Pod); ok {
		created, err = p.create(pod)
	} else {
		created, err = p.admitGroup(obj)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyOf(obj), err)
	}
	return created, nil
}

// createGroup returns a group as the registry would store it. An existing priority is kept.
func (p *podCreation) createGroup(given, internal, made runtime.Object, resource string, hasPriority bool, prepare func()) error {
	if err := legacyscheme.Scheme.Convert(given, internal, nil); err != nil {
		return err
	}
	if !hasPriority {
		named := scheduling.SchemeGroupVersion.WithResource(resource)
		key, _, _ := strings.Cut(keyOf(given), "/")
		attributes := admission.NewAttributesRecord(internal, nil, given.GetObjectKind().GroupVersionKind(), key, "", named, "", admission.Create, &metav1.CreateOptions{}, false, nil)
		if err := p.priorities.Admit(context.Background(), attributes, nil); err != nil {
			return err
		}
	}
	prepare()
	return legacyscheme.Scheme.Convert(internal, made, nil)
}

// create returns a pod as the registry would store it, with its original status, because inputs contain running pods.
func (p *podCreation) create(pod *corev1.Pod) (*corev1.Pod, error) {
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return nil, err
	}
	if err := p.setPriority(internal); err != nil {
		return nil, err
	}
	podregistry.Strategy.PrepareForCreate(context.Background(), internal)
	created := &corev1.Pod{}
	if err := legacyscheme.Scheme.Convert(internal, created, nil); err != nil {
		return nil, err
	}
	if level := created.Spec.Resources; level != nil {
		for name, amount := range level.Requests {
			// Decode the stored form. A quantity with a fraction shares its digits with its copies; upstream adds overhead to a
			// copy, which would change the pod.
			level.Requests[name] = resource.MustParse(amount.String())
		}
	}
	created.Generation, created.Status = pod.Generation, pod.Status
	if created.Status.Phase == "" {
		created.Status.Phase = corev1.PodPending
	}
	return created, nil
}

// setPriority runs the admission plugin. An existing priority or preemptionPolicy is kept, as in a dump of a live cluster,
// whose class may have been changed or deleted.
func (p *podCreation) setPriority(pod *core.Pod) error {
	givenPriority, givenPolicy, givenClass := pod.Spec.Priority, pod.Spec.PreemptionPolicy, pod.Spec.PriorityClassName
	if givenPriority != nil && (givenPolicy != nil || givenClass == "") {
		return nil
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = nil, nil
	resource, kind := corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod")
	attributes := admission.NewAttributesRecord(pod, nil, kind, pod.Namespace, pod.Name, resource, "", admission.Create, &metav1.CreateOptions{}, false, nil)
	err := p.priorities.Admit(context.Background(), attributes, nil)
	if givenPriority != nil {
		pod.Spec.Priority, err = givenPriority, nil
	}
	if givenPolicy != nil {
		pod.Spec.PreemptionPolicy = givenPolicy
	}
	return err
}
