# {{ project }}

A plugin for the [Moorage](https://pypi.org/project/moorage/) scheduler: `src/{{ package }}/plugin.py`.

| | |
|---|---|
| `src/{{ package }}/` | the plugin |
| `tests/` | its tests: the decisions, the rules for all plugins, and a cluster in virtual time |
| `nodes.yaml`, `workload.yaml` | a sample workload |
| `explore.py` | use of the plugin in a script or a notebook |
| `deploy/scheduler.yaml` | the configuration: which plugins run, with which arguments, for pods of which `schedulerName` |
| `deploy/` | the manifests: `base/` deploys Moorage, `rbac.yaml` has the permissions of the plugin |
| `Dockerfile` | the image of Moorage with the plugin |

## Test it

```console
$ pip install pytest 'moorage[testing]'
$ python -m pytest
```

## Run it on this machine

```console
$ PYTHONPATH=src moorage up --nodes 3 --shape cpu=4 --config deploy/scheduler.yaml --plugin {{ package }}:{{ plugin }}{{ definition }} -f nodes.yaml -f workload.yaml
```

After `pip install -e .` `PYTHONPATH` and `--plugin` are no longer needed: Moorage finds the plugin by the entry point in `pyproject.toml`.

## Use it in a script or a notebook

```console
$ PYTHONPATH=src python explore.py
```

## Run it on a cluster

```console
$ docker build -t {{ project }}:0.1.0 .    # or podman, or buildah; push it to your registry, and set its name in deploy/kustomization.yaml
$ kubectl apply -k deploy
```

It schedules pods with `schedulerName: {{ project }}`. To try it without an image, run it on this machine with the permissions of your kubeconfig:

```console
$ PYTHONPATH=src moorage scheduler --config deploy/scheduler.yaml --kubeconfig ~/.kube/config --leader-elect=false --plugin {{ package }}:{{ plugin }}
```

## Use it with a stock kube-scheduler

```console
$ PYTHONPATH=src moorage extender --plugin {{ package }}:{{ plugin }} --kubeconfig ~/.kube/config
```

It prints the section for the configuration of kube-scheduler.
