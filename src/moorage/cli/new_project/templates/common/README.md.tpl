# {{ project }}

A plugin for the [Moorage](https://pypi.org/project/moorage/) scheduler: `src/{{ package }}/plugin.py`.

| | |
|---|---|
| `src/{{ package }}/` | the plugin |
| `tests/` | tests of its decisions, of the rules for all plugins, and on a cluster in virtual time |
| `nodes.yaml`, `workload.yaml` | a sample workload |
| `explore.py` | use of the plugin in a script or a notebook |
| `deploy/scheduler.yaml` | the configuration: the profile with its `schedulerName`, plugins and arguments |
| `deploy/` | the manifests: `base/` deploys Moorage, `rbac.yaml` contains the permissions of the plugin |
| `Dockerfile` | the image of Moorage with the plugin |
| `Makefile` | `make test`, `make fmt`, `make image` and `make push IMAGE=registry.example/{{ project }}:0.1.0` |

## Test it

```console
$ pip install pytest ruff 'moorage[testing]'
# before the first release: pip install pytest ruff '/path/to/moorage[testing]'
$ python -m pytest
```

## Run it on this machine

```console
$ PYTHONPATH=src moorage up --nodes 3 --shape cpu=4 --config deploy/scheduler.yaml --plugin {{ package }}:{{ plugin }}{{ definition }} -f nodes.yaml -f workload.yaml
```

After `pip install -e .`, `PYTHONPATH` and `--plugin` are not needed: Moorage loads the plugin through its entry
point in `pyproject.toml`.

## Use it in a script or a notebook

```console
$ PYTHONPATH=src python explore.py
```

## Run it on a cluster

```console
$ make push IMAGE=registry.example/{{ project }}:0.1.0    # set the name in deploy/kustomization.yaml; BUILDER can also be podman or buildah
$ kubectl apply -k deploy
```

This creates the Deployment `kube-system/{{ project }}-moorage` and does not change other deployments of Moorage. It
schedules pods with `schedulerName: {{ project }}`. After changing `deploy/scheduler.yaml`, repeat
`kubectl apply -k deploy`: the scheduler reloads the file without a restart.

To try it without an image, run it on this machine with the permissions of your kubeconfig:

```console
$ KUBECONFIG=~/.kube/config PYTHONPATH=src moorage scheduler --config deploy/scheduler.yaml --leader-elect=false --plugin {{ package }}:{{ plugin }}
```
{{ extender }}