//go:build names

package main

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/schedulingv1/workloadbuilder"
)

// Releases from 1.38 publish how groups and workloads are named.
func init() {
	libraries["group name"] = func(input []string) answer {
		return answer{Value: workloadbuilder.GeneratePodGroupName(input[0], input[1])}
	}
	libraries["workload name"] = func(input []string) answer {
		return answer{Value: workloadbuilder.GenerateWorkloadName(input[0], types.UID(input[1]))}
	}
}
