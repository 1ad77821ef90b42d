# {{ project }}

A plugin for the [Moorage](https://pypi.org/project/moorage/) scheduler: `src/{{ package }}/plugin.py`.

| | |
|---|---|
| `src/{{ package }}/` | the plugin |
| `tests/` | its tests: the answers, the rules that every plugin must keep, a whole cluster in virtual time |
| `nodes.yaml`, `workload.yaml` | something to try it with |
| `explore.py` | the same questions in a script or a notebook |
| `deploy/scheduler.yaml` | the configuration: which plugins run, with which arguments, for pods of which `schedulerName` |
| `deploy/` | the manifests: Moorage's own in `base/`, what the plugin may do beyond that in `rbac.yaml` |
| `Dockerfile` | Moorage's image with the plugin in it |

## Test it

```console
$ pip install pytest 'moorage[testing]'
$ python -m pytest
```

## Run it on this machine

```console
$ PYTHONPATH=src moorage up --nodes 3 --shape cpu=4 --config deploy/scheduler.yaml --plugin {{ package }}:{{ plugin }}{{ definition }} -f nodes.yaml -f workload.yaml
```

After `pip install -e .` neither `PYTHONPATH` nor `--plugin` is needed: the entry point in `pyproject.toml` tells Moorage of the plugin.

## Ask it in a script or a notebook

```console
$ PYTHONPATH=src python explore.py
```

## Run it on a cluster

```console
$ docker build -t {{ project }}:0.1.0 .    # or podman, or buildah; push it where your nodes pull from, and name it in deploy/kustomization.yaml
$ kubectl apply -k deploy
```

Pods with `schedulerName: {{ project }}` are placed by it. To try it without an image, run it here with the rights of your kubeconfig:

```console
$ PYTHONPATH=src moorage scheduler --config deploy/scheduler.yaml --kubeconfig ~/.kube/config --leader-elect=false --plugin {{ package }}:{{ plugin }}
```

## Or beside a kube-scheduler that you may not replace

```console
$ PYTHONPATH=src moorage extender --plugin {{ package }}:{{ plugin }} --kubeconfig ~/.kube/config
```

It prints what belongs into the configuration of kube-scheduler.
