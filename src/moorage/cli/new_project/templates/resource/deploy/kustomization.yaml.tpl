# Moorage with this plugin as a second scheduler: kubectl apply -k deploy
# base/ is a copy of the deployment of Moorage, from the time when this project was created.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: kube-system
resources:
  - base
  - rbac.yaml
  - definition.yaml
images:
  - name: moorage
    newName: {{ project }}  # the image of this project in your registry
    newTag: 0.1.0
# This configuration replaces the default one. The name of its ConfigMap changes with its contents, so that
# `kubectl apply -k deploy` restarts the scheduler.
configMapGenerator:
  - name: {{ project }}
    files: [config.yaml=scheduler.yaml]
patches:
  - target: {kind: Deployment, name: moorage}
    patch: |
      - {op: replace, path: /spec/template/spec/volumes/0/configMap/name, value: {{ project }}}
  - patch: |
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: moorage, namespace: kube-system}
      $patch: delete
