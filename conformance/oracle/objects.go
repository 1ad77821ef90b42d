package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
)

// storageVersions are the versions that the scheduler reads, in addition to versionsOfRelease; objects of other versions are
// converted to them.
var storageVersions = schema.GroupVersions{
	corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, policyv1.SchemeGroupVersion, storagev1.SchemeGroupVersion,
	resourcev1.SchemeGroupVersion, schedulingv1.SchemeGroupVersion,
}

// epoch is the creation time of the first object of an input; each object is one second younger than the previous one.
var epoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// readDocuments splits YAML or JSON text into one raw JSON object per document or list item.
func readDocuments(text io.Reader) ([]json.RawMessage, error) {
	var documents []json.RawMessage
	stream := yaml.NewYAMLOrJSONDecoder(text, 4096)
	for {
		var raw json.RawMessage
		switch err := stream.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return nil, err
		}
		if len(bytes.TrimSpace(raw)) == 0 || bytes.Equal(raw, []byte("null")) {
			continue
		}
		flat, err := flatten(raw)
		if err != nil {
			return nil, err
		}
		documents = append(documents, flat...)
	}
}

// flatten returns the items of a List (of any kind), or the object itself.
func flatten(raw json.RawMessage) ([]json.RawMessage, error) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           []map[string]any `json:"items"`
	}
	var head metav1.TypeMeta
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	if !strings.HasSuffix(head.Kind, "List") {
		return []json.RawMessage{raw}, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var flat []json.RawMessage
	for _, item := range list.Items {
		// The items of a typed list (`kind: PodList`) may omit their kind.
		if kind := strings.TrimSuffix(head.Kind, "List"); kind != "" && item["kind"] == nil {
			item["kind"], item["apiVersion"] = kind, head.APIVersion
		}
		encoded, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		nested, err := flatten(encoded)
		if err != nil {
			return nil, err
		}
		flat = append(flat, nested...)
	}
	return flat, nil
}

// creation applies the steps of an API server for new objects, except those for pods (see admission.go).
type creation struct {
	count int
	seen  map[string]bool
}

func newCreation() *creation { return &creation{seen: map[string]bool{}} }

// decode turns raw JSON into a defaulted object with an identity; nil for a kind that the scheduler does not use.
func (c *creation) decode(raw json.RawMessage) (runtime.Object, error) {
	n := c.count
	c.count++
	obj, kind, err := decodeAndDefault(raw)
	if runtime.IsNotRegisteredError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("object %d: %w", n, err)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("object %d: %w", n, err)
	}
	if accessor.GetName() == "" {
		return nil, fmt.Errorf("object %d: %s without metadata.name", n, kind.Kind)
	}
	identify(obj, accessor, n)
	id := fmt.Sprintf("%T %s", obj, keyOf(obj))
	if c.seen[id] {
		return nil, fmt.Errorf("object %d: %s %q already exists", n, kind.Kind, keyOf(obj))
	}
	c.seen[id] = true
	return obj, nil
}

// decodeAndDefault applies the defaults of an object's version, then converts it as the API server does.
func decodeAndDefault(raw json.RawMessage) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := legacyscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	legacyscheme.Scheme.Default(obj)
	target := runtime.GroupVersioner(storageVersions)
	if version, ok := storedAs(obj); ok {
		target = version
	} else if slices.Contains(append(storageVersions, versionsOfRelease...), kind.GroupVersion()) {
		return obj, kind, nil
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, nil, err
	}
	obj, err = legacyscheme.Scheme.ConvertToVersion(internal, target)
	return obj, kind, err
}

// identify sets the fields of the registry: namespace, uid, creationTimestamp, resourceVersion.
func identify(obj runtime.Object, accessor metav1.Object, n int) {
	if accessor.GetNamespace() == "" && isNamespaced(obj) {
		accessor.SetNamespace(metav1.NamespaceDefault)
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(fmt.Sprintf("uid-%d", n)))
	}
	if created := accessor.GetCreationTimestamp(); created.IsZero() {
		accessor.SetCreationTimestamp(metav1.NewTime(epoch.Add(time.Duration(n) * time.Second)))
	}
	accessor.SetResourceVersion(strconv.Itoa(n + 1))
}

func isNamespaced(obj runtime.Object) bool {
	switch obj.(type) {
	case *corev1.Node, *corev1.Namespace, *corev1.PersistentVolume, *schedulingv1.PriorityClass,
		*storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver, *storagev1.VolumeAttachment,
		*resourcev1.DeviceClass, *resourcev1.ResourceSlice:
		return false
	}
	return !isClusterWide(obj)
}

// missingNamespaces creates a Namespace, with its name label, for each namespace that is used but missing.
func (c *creation) missingNamespaces(objs []runtime.Object) []runtime.Object {
	known := map[string]bool{}
	for _, obj := range objs {
		if namespace, ok := obj.(*corev1.Namespace); ok {
			known[namespace.Name] = true
		}
	}
	var made []runtime.Object
	for _, obj := range objs {
		accessor, err := meta.Accessor(obj)
		if err != nil || accessor.GetNamespace() == "" || known[accessor.GetNamespace()] {
			continue
		}
		known[accessor.GetNamespace()] = true
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: accessor.GetNamespace()}}
		legacyscheme.Scheme.Default(namespace)
		identify(namespace, namespace, c.count)
		c.count++
		made = append(made, namespace)
	}
	return made
}
