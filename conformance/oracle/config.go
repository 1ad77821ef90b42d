package main

import (
	"fmt"

	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/utils/ptr"
)

// loadConfig reads a KubeSchedulerConfiguration as `kube-scheduler --config` does: strict decoding, defaults, validation.
// Errors are upstream's. An empty text means no --config.
func loadConfig(text []byte) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	if len(text) == 0 {
		return latest.Default()
	}
	obj, kind, err := configscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", kind)
	}
	config.TypeMeta.APIVersion = kind.GroupVersion().String()
	if err := validation.ValidateKubeSchedulerConfiguration(config); err != nil {
		return nil, err
	}
	return config, nil
}

// searchAllNodes makes all profiles evaluate all nodes.
func searchAllNodes(config *schedulerconfig.KubeSchedulerConfiguration) {
	config.PercentageOfNodesToScore = ptr.To[int32](100)
	for i := range config.Profiles {
		config.Profiles[i].PercentageOfNodesToScore = nil
	}
}
