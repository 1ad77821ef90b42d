// Command fields prints the fields of the Kubernetes API types for the embedded API server: JSON names, protobuf numbers,
// required fields, and merge rules of lists. It reads the Go types by reflection.
//
//	CGO_ENABLED=0 go run -trimpath ./fields > ../src/moorage/kube/fields.json
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// groupVersions are the versions that the server serves.
var groupVersions = []schema.GroupVersion{
	{Version: "v1"},
	{Group: "admissionregistration.k8s.io", Version: "v1"},
	{Group: "apiextensions.k8s.io", Version: "v1"},
	{Group: "apiregistration.k8s.io", Version: "v1"},
	{Group: "apps", Version: "v1"},
	{Group: "authentication.k8s.io", Version: "v1"},
	{Group: "authorization.k8s.io", Version: "v1"},
	{Group: "autoscaling", Version: "v1"},
	{Group: "autoscaling", Version: "v2"},
	{Group: "batch", Version: "v1"},
	{Group: "certificates.k8s.io", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1"},
	{Group: "coordination.k8s.io", Version: "v1beta1"},
	{Group: "discovery.k8s.io", Version: "v1"},
	{Group: "events.k8s.io", Version: "v1"},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"},
	{Group: "networking.k8s.io", Version: "v1"},
	{Group: "node.k8s.io", Version: "v1"},
	{Group: "policy", Version: "v1"},
	{Group: "rbac.authorization.k8s.io", Version: "v1"},
	{Group: "resource.k8s.io", Version: "v1"},
	{Group: "scheduling.k8s.io", Version: "v1"},
	{Group: "scheduling.k8s.io", Version: "v1alpha3"},
	{Group: "scheduling.k8s.io", Version: "v1beta1"},
	{Group: "storage.k8s.io", Version: "v1"},
}

// opaque types have custom JSON code: their Go fields do not describe their JSON.
var opaque = map[string]string{
	"Time": "time", "MicroTime": "microtime", "Quantity": "quantity", "IntOrString": "intorstring", "Duration": "duration",
	"RawExtension": "raw", "FieldsV1": "fields", "Verbs": "strings", "ExtraValue": "strings", "AttestationValue": "strings",
	"JSON": "json", "JSONSchemaPropsOrArray": "schemaorschemas", "JSONSchemaPropsOrBool": "schemaorbool", "JSONSchemaPropsOrStringArray": "schemaorstrings",
}

// A field is one line of a type's table; empty values are omitted.
type field struct {
	Name     string   `json:"name,omitempty"` // empty: its fields are inlined in JSON
	Number   int      `json:"number"`
	Type     string   `json:"type"`
	Shape    string   `json:"shape,omitempty"`    // list or map; a single value otherwise
	Omit     bool     `json:"omit,omitempty"`     // omitted from JSON if zero
	Required bool     `json:"required,omitempty"` // present in all objects
	MergeKey string   `json:"mergeKey,omitempty"` // patchMergeKey
	Strategy string   `json:"strategy,omitempty"` // patchStrategy
	ListType string   `json:"listType,omitempty"` // x-kubernetes-list-type, or map-type
	ListKeys []string `json:"listKeys,omitempty"` // x-kubernetes-list-map-keys
}

type tables struct {
	kinds   map[string]string
	types   map[string][]field
	atomic  []string // types with x-kubernetes-map-type: atomic
	openapi map[string]common.OpenAPIDefinition
}

func main() {
	t := tables{kinds: map[string]string{}, types: map[string][]field{}, openapi: openapi.GetOpenAPIDefinitions(reference)}
	utilruntime.Must(apiextensions.AddToScheme(scheme.Scheme))
	utilruntime.Must(apiregistration.AddToScheme(scheme.Scheme))
	for _, gv := range groupVersions {
		for kind, goType := range scheme.Scheme.KnownTypes(gv) {
			if isOfThisGroup(goType, kind) {
				t.kinds[gv.String()+"/"+kind] = t.add(goType)
			}
		}
	}
	t.kinds["v1/DeleteOptions"] = t.add(reflect.TypeFor[metav1.DeleteOptions]())
	t.kinds["v1/Status"] = t.add(reflect.TypeFor[metav1.Status]())
	if err := t.write(); err != nil {
		fmt.Fprintln(os.Stderr, "fields:", err)
		os.Exit(1)
	}
}

// isOfThisGroup excludes lists, and the options that every group has.
func isOfThisGroup(goType reflect.Type, kind string) bool {
	_, isObject := reflect.New(goType).Interface().(runtime.Object)
	return isObject && !strings.HasSuffix(kind, "List") && !strings.HasSuffix(kind, "Options") && kind != "WatchEvent" && kind != "Status"
}

func reference(path string) spec.Ref { return spec.MustCreateRef("#/definitions/" + path) }

// add describes a struct and all types in it, and returns its name.
func (t *tables) add(goType reflect.Type) string {
	if name, ok := opaque[goType.Name()]; ok {
		return name
	}
	name := modelName(goType)
	if _, known := t.types[name]; known {
		return name
	}
	t.types[name] = []field{}
	definition := t.openapi[name].Schema
	if text, _ := definition.Extensions.GetString("x-kubernetes-map-type"); text == "atomic" {
		t.atomic = append(t.atomic, name)
	}
	fields := []field{}
	for i := range goType.NumField() {
		if described, ok := t.describe(goType.Field(i), definition); ok {
			fields = append(fields, described)
		}
	}
	t.types[name] = fields
	return name
}

func (t *tables) describe(goField reflect.StructField, definition spec.Schema) (field, bool) {
	tag := strings.Split(goField.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return field{}, false
	}
	number, err := strconv.Atoi(tag[1])
	if err != nil {
		return field{}, false
	}
	name, options, _ := strings.Cut(goField.Tag.Get("json"), ",")
	described := field{Name: name, Number: number, MergeKey: goField.Tag.Get("patchMergeKey"), Strategy: goField.Tag.Get("patchStrategy")}
	described.Shape, described.Type = t.shape(goField.Type)
	described.Omit = strings.Contains(options, "omitempty") && goField.Type.Kind() != reflect.Pointer
	described.Required = slices.Contains(definition.Required, name)
	property := definition.Properties[name]
	for _, extension := range []string{"x-kubernetes-list-type", "x-kubernetes-map-type"} {
		if text, ok := property.Extensions.GetString(extension); ok {
			described.ListType = text
		}
	}
	described.ListKeys, _ = property.Extensions.GetStringSlice("x-kubernetes-list-map-keys")
	if len(described.ListKeys) == 0 {
		described.ListKeys = listKeys(property)
	}
	return described, true
}

// listKeys reads the keys from the generated code, where they are an untyped list.
func listKeys(property spec.Schema) []string {
	keys, _ := property.Extensions["x-kubernetes-list-map-keys"].([]interface{})
	var names []string
	for _, key := range keys {
		names = append(names, key.(string))
	}
	return names
}

// shape distinguishes lists and maps from single values, and returns their element type.
func (t *tables) shape(goType reflect.Type) (shape, name string) {
	if _, isOpaque := opaque[goType.Name()]; isOpaque {
		return "", t.scalar(goType)
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return t.shape(goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "", "bytes"
		}
		return "list", t.scalar(goType.Elem())
	case reflect.Map:
		return "map", t.scalar(goType.Elem())
	default:
		return "", t.scalar(goType)
	}
}

func (t *tables) scalar(goType reflect.Type) string {
	if name, ok := opaque[goType.Name()]; ok {
		return name
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return t.scalar(goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		panic("a list of lists: " + goType.String())
	case reflect.Struct:
		return t.add(goType)
	case reflect.Float64:
		return "double"
	default:
		return goType.Kind().String()
	}
}

func modelName(goType reflect.Type) string {
	if named, ok := reflect.New(goType).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return goType.String()
}

// write prints one type per line, so that a new version of Kubernetes gives a readable diff.
func (t *tables) write() error {
	out := bufio.NewWriter(os.Stdout)
	kinds, err := json.Marshal(t.kinds)
	if err != nil {
		return err
	}
	sort.Strings(t.atomic)
	atomic, err := json.Marshal(t.atomic)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "{\"kinds\": %s,\n \"atomic\": %s,\n \"types\": {", kinds, atomic)
	names := make([]string, 0, len(t.types))
	for name := range t.types {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		fields, err := json.Marshal(t.types[name])
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n  %q: %s", name, fields)
	}
	fmt.Fprintln(out, "\n }}")
	return out.Flush()
}
