"""Write the README of the chart and its rendered goldens; package the chart: `make chart`.

The README is generated from `values.schema.json` and the defaults in `values.yaml`. `tests/unit/release/test_chart.py`
fails if it is outdated, and `tests/live/test_deploy.py` if the goldens are.
"""

import argparse
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from release.dist import DIST, ROOT, run

CHART: Final = ROOT / "deploy" / "helm" / "moorage"
GOLDENS: Final = ROOT / "tests" / "live" / "goldens"
#: Values for each golden file.
RENDERED: Final[dict[str, list[str]]] = {
    "chart-default": [],
    "chart-custom": [
        "--set=schedulerName=default-scheduler,replicas=3,reload=false,networkPolicy.enabled=false,verbosity=4",
        f"--set=image.repository=registry.example/moorage,image.digest=sha256:{'0' * 64}",
        "--set=plugins={mine.spot:Spot},extraArgs={--kube-api-qps=50},nodeSelector.pool=control,podLabels.team=a",
        "--set=image.pullSecrets[0].name=registry,podAnnotations.note=b,profile.percentageOfNodesToScore=7",
    ],
}
TEXT: Final = """\
# Moorage chart

{description}
The chart installs a service account with the required permissions, a KubeSchedulerConfiguration
with one profile, and replicas that elect a leader with a lease. It supports Kubernetes
`{kube}`.

```console
$ helm install moorage oci://REGISTRY/charts/moorage --namespace kube-system --set image.repository=REGISTRY/moorage
```

From a clone, use `deploy/helm/moorage` instead of the `oci://` address. `helm upgrade` applies changed
values. Replicas reload a changed configuration without a restart, unless `reload` is false.
`helm rollback` restores the previous configuration. `helm uninstall` removes everything except the
lease, which the scheduler creates.

## Values

| value | default | description |
|---|---|---|
{rows}

`values.schema.json` validates values: unknown names and wrong types are errors. This page is generated
by `make chart`.
"""


def main() -> None:
    """Write README and goldens, lint, and package the chart into dist/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", help="name of the image that the packaged chart uses by default")
    arguments = parser.parse_args()
    (CHART / "README.md").write_text(readme(), encoding="utf-8")
    helm = find_helm()
    GOLDENS.mkdir(exist_ok=True)
    for name in RENDERED:
        (GOLDENS / f"{name}.yaml").write_text(render(helm, name), encoding="utf-8")
    run([helm, "lint", "--strict", CHART])
    print(run([helm, "package", prepare(arguments.repository), "--destination", DIST]).strip())


def readme() -> str:
    """Return the README of the chart."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    rows = "\n".join(describe(schema["properties"], values))
    return TEXT.format(description=chart["description"], kube=chart["kubeVersion"], rows=rows)


def describe(properties: dict[str, Any], values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a row for each value; objects with known fields have a row per field."""
    for name, schema in properties.items():
        if name not in values:
            continue
        if "properties" in schema:
            yield from describe(schema["properties"], values[name], f"{prefix}{name}.")
        else:
            default = json.dumps(values[name], ensure_ascii=False)
            yield f"| `{prefix}{name}` | `{default}` | {schema['description']} |"


def render(helm: Path, name: str) -> str:
    """Return the manifests that the chart renders for a golden file."""
    flags = ("--namespace=kube-system", "--kube-version=1.37.1")
    return run([helm, "template", "moorage", CHART, *flags, *RENDERED[name]])


def find_helm() -> Path:
    """Return helm, which is built first if necessary."""
    script = ROOT / "conformance" / "control-plane"
    built = subprocess.run([script, "helm"], check=True, capture_output=True, text=True)
    return Path(built.stdout.splitlines()[-1]) / "helm"


def prepare(repository: str | None) -> Path:
    """Return the chart to package; with a repository, a copy that uses its image by default."""
    if not repository:
        return CHART
    copy = DIST / "chart" / "moorage"
    subprocess.run(["rm", "-rf", copy], check=True)
    copy.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-R", CHART, copy], check=True)
    values = (copy / "values.yaml").read_text(encoding="utf-8")
    (copy / "values.yaml").write_text(values.replace("repository: moorage\n", f"repository: {repository}\n", 1))
    return copy


if __name__ == "__main__":
    main()
