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
      queueSort:  # only one QueueSort plugin is allowed: replace PrioritySort
        disabled: [{name: "*"}]
        enabled:
          - name: {{ plugin }}
    pluginConfig:
      - name: {{ plugin }}
        args: {label: {{ label }}}
