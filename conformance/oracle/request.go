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
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// The number of evaluated nodes.
const (
	searchAll    = "all"
	searchConfig = "config"
)

// request is a cluster with pending pods: a line of the stream.
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

// readRequest combines the files of a command line into one request.
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

// configText returns the configuration as the text of a file: a string is the text, an object its JSON.
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

// baseGates are disabled so that victims are known when PostFilter returns, and each pod is scored separately.
var baseGates = map[string]bool{
	string(features.SchedulerAsyncPreemption): false,
	string(features.OpportunisticBatching):    false,
}

// emulate sets the release that defines the feature gates, and its base gates. An empty text selects the release of this program.
func emulate(release string) error {
	mutable := utilfeature.DefaultMutableFeatureGate
	if release != "" {
		emulated, err := version.ParseMajorMinor(release)
		if err != nil {
			return fmt.Errorf("--emulated-version: %w", err)
		}
		if err := mutable.SetEmulationVersion(emulated); err != nil {
			return err
		}
	}
	known := mutable.GetAll()
	for name := range baseGates {
		if _, ok := known[featuregate.Feature(name)]; !ok {
			delete(baseGates, name)
		}
	}
	return mutable.SetFromMap(baseGates)
}

// setFeatureGates sets gates for one request and returns a function that restores them.
func setFeatureGates(gates map[string]bool) (restore func(), err error) {
	mutable := utilfeature.DefaultMutableFeatureGate
	known := mutable.GetAll()
	before := map[string]bool{}
	for name, value := range gates {
		// Check first: upstream would log an unknown gate for all later requests.
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

// panicked returns a reproducible error with the function's name; the stack is written to standard error.
func panicked(reason any) error {
	fmt.Fprintf(os.Stderr, "oracle: panic: %v\n%s\n", reason, debug.Stack())
	return fmt.Errorf("panic in %s: %v", panickedIn(), reason)
}

// panickedIn returns the innermost function of kube-scheduler, or of this program, at the time of a panic.
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
