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
	resultIncomplete    = "incomplete" // its group, or a parent of the group, is missing
	resultWaiting       = "waiting"    // a group with victims that are still terminating
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

// rejection is the rejecting status of a pod or of one node.
type rejection struct {
	Plugin  string   `json:"plugin,omitempty"`
	Code    string   `json:"code,omitempty"`
	Reasons []string `json:"reasons,omitempty"`
}

// node is the result for one node: a rejection or scores; empty if it was the only feasible node.
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

// orderedReasons sorts the reasons that NodeResourcesFit collects from a map of scalar resources. They follow pods, cpu,
// memory and ephemeral-storage, which have a fixed order.
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
