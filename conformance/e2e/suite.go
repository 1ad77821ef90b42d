// Package e2e requires upstream's end-to-end suite, so that `go mod tidy` keeps the dependencies of its tests.
package e2e

import _ "k8s.io/kubernetes/test/e2e"
