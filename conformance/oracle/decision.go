package main

import (
	"sort"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Results of an attempt.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
	resultGated         = "gated"
	resultIncomplete    = "incomplete" // its group is not known, or a group above that one
	resultWaiting       = "waiting"    // a group that waits for its victims to leave
)

// decision is one entry of the decisions format.
type decision struct {
	Pod                  string          `json:"pod"`
	Profile              string          `json:"profile"`
	Result               string          `json:"result"`
	Node                 string          `json:"node,omitempty"`
	Tied                 []string        `json:"tied,omitempty"`
	Message              string          `json:"message,omitempty"`
	UnschedulablePlugins []string        `json:"unschedulablePlugins,omitempty"`
	PreFilter            *rejection      `json:"preFilter,omitempty"`
	Nodes                map[string]node `json:"nodes,omitempty"`
	PostFilter           *nomination     `json:"postFilter,omitempty"`
}

// rejection is a status that said no: to the pod, or to one node.
type rejection struct {
	Plugin  string   `json:"plugin,omitempty"`
	Code    string   `json:"code,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
}

// node is what was found out about one node: a rejection, or scores; nothing when it was the only feasible one.
type node struct {
	rejection
	Total  *int64           `json:"total,omitempty"`
	Scores map[string]score `json:"scores,omitzero"`
}

type score struct {
	Raw        int64 `json:"raw"`
	Normalized int64 `json:"normalized"`
	Weighted   int64 `json:"weighted"`
}

type nomination struct {
	NominatedNode string   `json:"nominatedNode"`
	Victims       []string `json:"victims"`
}

func rejectionOf(status *fwk.Status) rejection {
	return rejection{Plugin: status.Plugin(), Code: status.Code().String(), Reasons: orderedReasons(status)}
}

// orderedReasons sorts the reasons NodeResourcesFit collects from a map of scalar resources; they come last, after pods,
// cpu, memory and ephemeral-storage, which have a fixed order.
func orderedReasons(status *fwk.Status) []string {
	reasons := append([]string(nil), status.Reasons()...)
	if status.Plugin() != names.NodeResourcesFit {
		return reasons
	}
	first := len(reasons)
	for first > 0 && isScalar(reasons[first-1]) {
		first--
	}
	sort.Strings(reasons[first:])
	return reasons
}

func isScalar(reason string) bool {
	resource, ok := strings.CutPrefix(reason, "Insufficient ")
	return ok && resource != "cpu" && resource != "memory" && resource != "ephemeral-storage"
}
