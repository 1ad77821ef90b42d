# Moorage with this plugin as a second scheduler: kubectl apply -k deploy
# base/ is Moorage's own deployment, as it was when this project was made.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: kube-system
resources:
  - base
  - rbac.yaml
  - definition.yaml
images:
  - name: moorage
    newName: {{ project }}  # where your nodes pull the image of this project from
    newTag: 0.1.0
# The configuration takes the place of Moorage's own. The name of its config map changes with its contents, so that
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
