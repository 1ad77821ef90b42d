package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// How many nodes are looked at.
const (
	searchAll    = "all"
	searchConfig = "config"
)

// request is one cluster to decide on: a line of the stream.
type request struct {
	ID           json.RawMessage   `json:"id"`
	Config       json.RawMessage   `json:"config"`
	Search       string            `json:"search"`
	FeatureGates map[string]bool   `json:"featureGates"`
	Objects      []json.RawMessage `json:"objects"`
}

type answer struct {
	ID        json.RawMessage `json:"id"`
	Decisions []decision      `json:"decisions,omitzero"`
	Groups    []groupDecision `json:"groups,omitempty"`
	Error     string          `json:"error,omitempty"`
}

func answerCluster(line []byte) any {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: "not a request: " + err.Error()}
	}
	made, err := guarded(asked.decide)
	if err != nil {
		return answer{ID: asked.ID, Error: err.Error()}
	}
	return answer{ID: asked.ID, Decisions: made.decisions, Groups: made.groups}
}

// readRequest puts the files of a command line together as one request.
func readRequest(inputs []string, stdin io.Reader, config, search string) (request, error) {
	asked := request{Search: search}
	for _, name := range inputs {
		raws, err := readInput(name, stdin)
		if err != nil {
			return asked, fmt.Errorf("%s: %w", name, err)
		}
		asked.Objects = append(asked.Objects, raws...)
	}
	if config != "" {
		text, err := os.ReadFile(config)
		if err != nil {
			return asked, err
		}
		if asked.Config, err = json.Marshal(string(text)); err != nil {
			return asked, err
		}
	}
	return asked, nil
}

func readInput(name string, stdin io.Reader) ([]json.RawMessage, error) {
	if name == "-" {
		return readDocuments(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readDocuments(file)
}

func (r request) decide() (outcome, error) {
	restore, err := setFeatureGates(r.FeatureGates)
	if err != nil {
		return outcome{}, err
	}
	defer restore()
	text, err := configText(r.Config)
	if err != nil {
		return outcome{}, err
	}
	config, err := loadConfig(text)
	if err != nil {
		return outcome{}, err
	}
	switch r.Search {
	case "", searchAll:
		searchAllNodes(config)
	case searchConfig:
	default:
		return outcome{}, fmt.Errorf("search: %q is neither %q nor %q", r.Search, searchAll, searchConfig)
	}
	var raws []json.RawMessage
	for _, raw := range r.Objects {
		flat, err := flatten(raw)
		if err != nil {
			return outcome{}, err
		}
		raws = append(raws, flat...)
	}
	return decide(config, raws)
}

// configText is the configuration as a file would have it: a string is the file's text, an object its JSON.
func configText(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '"' {
		return raw, nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return []byte(text), err
}

// baseGates are off so that victims are known when PostFilter returns, and every pod is scored for itself.
var baseGates = map[string]bool{
	string(features.SchedulerAsyncPreemption): false,
	string(features.OpportunisticBatching):    false,
}

func init() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.SetFromMap(baseGates))
}

// setFeatureGates sets gates for one request and returns how to set them back.
func setFeatureGates(gates map[string]bool) (restore func(), err error) {
	mutable := utilfeature.DefaultMutableFeatureGate
	known := mutable.GetAll()
	before := map[string]bool{}
	for name, value := range gates {
		// Checked first: a gate that cannot be set would be complained about ever after.
		spec, ok := known[featuregate.Feature(name)]
		if !ok {
			return nil, fmt.Errorf("unrecognized feature gate: %s", name)
		}
		if spec.LockToDefault && spec.Default != value {
			return nil, fmt.Errorf("cannot set feature gate %s to %v, feature is locked to %v", name, value, spec.Default)
		}
		before[name] = mutable.Enabled(featuregate.Feature(name))
	}
	if err := mutable.SetFromMap(gates); err != nil {
		return nil, err
	}
	return func() { utilruntime.Must(mutable.SetFromMap(before)) }, nil
}

// guarded turns a panic, here or in one of upstream's worker goroutines, into an error.
func guarded[T any](work func() (T, error)) (result T, err error) {
	var mutex sync.Mutex
	var elsewhere error
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, reason any) {
		mutex.Lock()
		defer mutex.Unlock()
		elsewhere = panicked(reason)
	}}
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
		mutex.Lock()
		defer mutex.Unlock()
		if elsewhere != nil {
			err = elsewhere
		}
	}()
	return work()
}

// panicked makes an error that is the same each time and names the function; the whole stack goes to standard error.
func panicked(reason any) error {
	fmt.Fprintf(os.Stderr, "oracle: panic: %v\n%s\n", reason, debug.Stack())
	return fmt.Errorf("panic in %s: %v", panickedIn(), reason)
}

// panickedIn names the innermost function of kube-scheduler, or of this program, that was running when something panicked.
func panickedIn() string {
	callers := make([]uintptr, 256)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	panicking := false
	for {
		frame, more := frames.Next()
		if frame.Function == "runtime.gopanic" {
			panicking = true
		} else if panicking && (strings.HasPrefix(frame.Function, "k8s.io/kubernetes/") || strings.HasPrefix(frame.Function, "main.")) {
			return frame.Function
		}
		if !more {
			return "?"
		}
	}
}
