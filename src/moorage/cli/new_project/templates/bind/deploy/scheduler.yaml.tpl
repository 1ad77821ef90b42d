# Moorage's default plugins and {{ plugin }}, for pods with `schedulerName: {{ project }}`.
# Print it with all defaults: moorage config view --config deploy/scheduler.yaml
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  resourceName: {{ project }}
  resourceNamespace: kube-system
profiles:
  - schedulerName: {{ project }}
    plugins:
      bind:  # the first plugin that does not skip the pod binds it: DefaultBinder must be last
        disabled: [{name: DefaultBinder}]
        enabled:
          - name: {{ plugin }}
          - name: DefaultBinder
    pluginConfig:
      - name: {{ plugin }}
        args: {label: {{ label }}}
