package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
)

type completed struct {
	ID     json.RawMessage `json:"id"`
	Config json.RawMessage `json:"config,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// answerConfig completes a configuration as `kube-scheduler --write-config-to` does, or returns upstream's error.
func answerConfig(line []byte) any {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return completed{Error: "not a request: " + err.Error()}
	}
	document, err := guarded(asked.complete)
	if err != nil {
		return completed{ID: asked.ID, Error: err.Error()}
	}
	return completed{ID: asked.ID, Config: document}
}

func (r request) complete() ([]byte, error) {
	restore, err := setFeatureGates(r.FeatureGates)
	if err != nil {
		return nil, err
	}
	defer restore()
	text, err := configText(r.Config)
	if err != nil {
		return nil, err
	}
	config, err := loadConfig(text)
	if err != nil {
		return nil, err
	}
	// The profiles are completed while their frameworks are built, which also checks the arguments of plugins.
	profiles := []schedulerconfig.KubeSchedulerProfile{}
	cluster, err := newCluster(config, scheduler.WithBuildFrameworkCapturer(func(profile schedulerconfig.KubeSchedulerProfile) {
		profiles = append(profiles, profile)
	}))
	if err != nil {
		return nil, err
	}
	if err := cluster.close(); err != nil {
		return nil, err
	}
	config.Profiles = profiles
	info, _ := runtime.SerializerInfoForMediaType(configscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	return runtime.Encode(configscheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion), config)
}
