# Moorage with this plugin as a second scheduler: kubectl apply -k deploy
# base/ is a copy of Moorage's manifests from the creation of this project.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: kube-system
# The prefix and the label separate this scheduler from other deployments of Moorage.
namePrefix: {{ project }}-
labels:
  - pairs: {app.kubernetes.io/instance: {{ project }}}
    includeSelectors: true
resources:
  - base
  - rbac.yaml
  - definition.yaml
images:
  - name: moorage
    newName: {{ project }}  # the image of this project in your registry
    newTag: 0.1.0
# This configuration replaces the default one. The scheduler reloads a changed ConfigMap without a restart.
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator:
  - name: moorage
    namespace: kube-system
    behavior: replace
    files: [config.yaml=scheduler.yaml]
patches:
  # The lease of the scheduler: leaderElection.resourceName in scheduler.yaml.
  - target: {kind: Role, name: moorage-leases}
    patch: |
      - {op: replace, path: /rules/1/resourceNames, value: [{{ project }}]}
