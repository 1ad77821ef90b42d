package main

import (
	"context"
	"fmt"
	"reflect"
	"sort"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// watchedKinds are the kinds that kube-scheduler (and the priority admission plugin) read through informers, in addition to
// kindsOfRelease.
var watchedKinds = []runtime.Object{
	&corev1.Namespace{}, &schedulingv1.PriorityClass{}, &policyv1.PodDisruptionBudget{},
	&corev1.Service{}, &corev1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
	&storagev1.StorageClass{}, &storagev1.CSIDriver{}, &storagev1.CSINode{}, &storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{},
	&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{},
	&resourcev1.DeviceClass{}, &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaim{},
	&corev1.Node{}, &corev1.Pod{},
}

// world is an informer factory. Its informers receive changes by calls instead of watching an API server: all handlers
// have run when a call returns. There are no goroutines and no polling, and the caller determines the order of objects.
type world struct {
	informers.SharedInformerFactory
	byType map[reflect.Type]*informer
}

func newWorld(client kubernetes.Interface) *world {
	w := &world{SharedInformerFactory: informers.NewSharedInformerFactory(client, 0), byType: map[reflect.Type]*informer{}}
	for _, kind := range append(watchedKinds, kindsOfRelease...) {
		told := newInformer()
		w.byType[reflect.TypeOf(kind)] = told
		w.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return told })
	}
	return w
}

func (w *world) informerOf(obj runtime.Object) (*informer, error) {
	if told, ok := w.byType[reflect.TypeOf(obj)]; ok {
		return told, nil
	}
	return nil, fmt.Errorf("the scheduler does not watch objects of type %T", obj)
}

// apply adds or updates an object in the informer of its kind.
func (w *world) apply(obj runtime.Object) error {
	told, err := w.informerOf(obj)
	if err != nil {
		return err
	}
	return told.apply(obj)
}

// remove deletes the object with this name from the informer of its kind.
func (w *world) remove(obj runtime.Object) error {
	told, err := w.informerOf(obj)
	if err != nil {
		return err
	}
	return told.remove(obj)
}

// informer implements cache.SharedIndexInformer for one kind.
type informer struct {
	store    *orderedIndexer
	handlers []cache.ResourceEventHandler
}

func newInformer() *informer {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return &informer{store: &orderedIndexer{
		Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, byNamespace),
		arrival: map[string]int{},
	}}
}

func (i *informer) apply(obj any) error {
	old, exists, err := i.store.Get(obj)
	if err != nil {
		return err
	}
	if err := i.store.Add(obj); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		if exists {
			handler.OnUpdate(old, obj)
		} else {
			handler.OnAdd(obj, false)
		}
	}
	return nil
}

func (i *informer) remove(obj any) error {
	old, exists, err := i.store.Get(obj)
	if err != nil || !exists {
		return err
	}
	if err := i.store.Delete(old); err != nil {
		return err
	}
	for _, handler := range i.handlers {
		handler.OnDelete(old)
	}
	return nil
}

func (i *informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, handler)
	for _, obj := range i.store.List() {
		handler.OnAdd(obj, true)
	}
	return synced{}, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

func (i *informer) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }
func (i *informer) GetStore() cache.Store                                           { return i.store }
func (i *informer) GetIndexer() cache.Indexer                                       { return i.store }
func (i *informer) AddIndexers(indexers cache.Indexers) error                       { return i.store.AddIndexers(indexers) }
func (i *informer) GetController() cache.Controller                                 { return nil }
func (i *informer) Run(<-chan struct{})                                             {}
func (i *informer) RunWithContext(context.Context)                                  {}
func (i *informer) HasSynced() bool                                                 { return true }
func (i *informer) HasSyncedChecker() cache.DoneChecker                             { return synced{} }
func (i *informer) LastSyncResourceVersion() string                                 { return "" }
func (i *informer) SetWatchErrorHandler(cache.WatchErrorHandler) error              { return nil }
func (i *informer) SetTransform(cache.TransformFunc) error                          { return nil }
func (i *informer) IsStopped() bool                                                 { return false }
func (i *informer) SetWatchErrorHandlerWithContext(cache.WatchErrorHandlerWithContext) error {
	return nil
}

// synced is a handler registration that is always synchronized.
type synced struct{}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (synced) HasSynced() bool                     { return true }
func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }
func (synced) Name() string                        { return "told informer" }
func (synced) Done() <-chan struct{}               { return closed }

// orderedIndexer lists objects in order of arrival, where client-go's store lists them in map order, so that one input
// has one result.
type orderedIndexer struct {
	cache.Indexer
	arrival map[string]int
}

func (o *orderedIndexer) Add(obj any) error {
	key, err := cache.MetaNamespaceKeyFunc(obj)
	if err != nil {
		return err
	}
	if _, known := o.arrival[key]; !known {
		o.arrival[key] = len(o.arrival)
	}
	return o.Indexer.Add(obj)
}

func (o *orderedIndexer) List() []any { return o.sorted(o.Indexer.List()) }

func (o *orderedIndexer) Index(name string, obj any) ([]any, error) {
	objs, err := o.Indexer.Index(name, obj)
	return o.sorted(objs), err
}

func (o *orderedIndexer) ByIndex(name, value string) ([]any, error) {
	objs, err := o.Indexer.ByIndex(name, value)
	return o.sorted(objs), err
}

func (o *orderedIndexer) sorted(objs []any) []any {
	sort.Slice(objs, func(a, b int) bool { return o.arrival[keyOf(objs[a])] < o.arrival[keyOf(objs[b])] })
	return objs
}

func keyOf(obj any) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	if accessor.GetNamespace() == "" {
		return accessor.GetName()
	}
	return accessor.GetNamespace() + "/" + accessor.GetName()
}
