"""Anonymized clusters: other names, the same decisions."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tests.conformance.generator import generate
from tests.conformance.ours import decide
from tests.unit.insight.explain.clusters import pod
from tests.unit.insight.snapshots.clusters import FAST, WORKLOADS, read, secret_workload

from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.simulation.simulation import simulate
from moorage.insight.snapshots.anonymizer import Anonymizer
from moorage.insight.snapshots.cluster_reader import KINDS, OPTIONAL, read_cluster
from moorage.insight.snapshots.expression_renaming import FUNCTIONS, ROOTS
from moorage.insight.snapshots.public_words import PUBLIC_WORDS
from moorage.kube.api.codec import convert
from moorage.kube.api.devices import ResourceSlice
from moorage.kube.api.kinds import Kind
from moorage.kube.manifests import to_documents
from moorage.kube.schema import Schema, find_kind_schema, tables
from moorage.scheduler.plugins.dynamic_resources.cel.program import FIELDS, Facts, Program
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import Cluster, in_virtual_time

FEATURES = (("volumes", "devices"), ("groups", "devices"), ("volumes", "groups"), ("devices", "alphas"))
PARTS = ("latest", "vol", "hugepages", "T00")
DEVICES = {"apiVersion": "resource.k8s.io/v1"}


@pytest.mark.parametrize("number", range(24))
def test_anonymized_cluster_has_the_same_decisions(number: int) -> None:
    """The same pods go to the same nodes and evict the same victims, under other names."""
    case = generate(f"names/{number}", features=frozenset(FEATURES[number % len(FEATURES)]))
    case = replace(case, config=None)
    anonymizer = Anonymizer(case.objects)
    before, after = decide(case), decide(replace(case, objects=anonymizer.anonymized()))
    assert [decision["result"] for decision in after] == [decision["result"] for decision in before]
    for was, now in zip(before, after, strict=True):
        for field in ("pod", "group", "nominatedNode", *(["node"] if len(was.get("tied") or ()) < 2 else [])):
            assert now.get(field, "") == anonymizer.name(was.get(field, ""))
        for field in ("victims", "tied"):
            assert sorted(now.get(field) or ()) == sorted(map(anonymizer.name, was.get(field) or ()))


def filled(schema: Schema, marks: Iterator[str], above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an object that has a different mark in each field and each key."""
    contents: dict[str, Any] = {}
    for field in schema.by_name.values():
        below = field.schema
        if below is not None and below.name in above:
            continue
        plain = 7 if field.type in ("int32", "int64", "double") else True if field.type == "bool" else next(marks)
        item = plain if below is None else filled(below, marks, (*above, schema.name))
        contents[field.name] = (
            [item] if field.shape == "list" else {next(marks): item} if field.shape == "map" else item
        )
    return contents


@pytest.mark.parametrize("kind", KINDS + OPTIONAL, ids=lambda kind: kind.name)
@pytest.mark.parametrize("mark", ["zq{}q", "zq{}q.kubernetes.io/zq{}q", "10.77.{}.1", "requests.zq{}q/zq{}q", "77{}77"])
def test_no_text_of_an_object_survives(kind: Kind, mark: str) -> None:
    """Each field is renamed, including fields that a later version of the schema adds."""
    schema = find_kind_schema(kind.api_version, kind.name)
    assert schema is not None
    marks = (mark.replace("{}", str(number)) for number in count(100))
    content = {**filled(schema, marks), "apiVersion": kind.api_version, "kind": kind.name, "unknown": "zqq"}
    (renamed,) = Anonymizer([content]).anonymized()
    left = re.findall(r"zq\w*q|10\.77\.[\d.]+|77\d+77", json.dumps(list(texts_in(renamed))))
    # Texts of numbers remain only in fields of amounts, ports and versions.
    assert set(left) <= set(number_texts(renamed, schema))


def texts_in(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for item in content:
            yield from texts_in(item)
        for item in content.values() if isinstance(content, dict) else ():
            yield from texts_in(item)


def number_texts(content: dict[str, Any], schema: Schema) -> Iterator[str]:
    for key, value in content.items():
        field = schema.field(key)
        if field is None:
            continue
        items = value if isinstance(value, list) else value.values() if field.shape == "map" else [value]
        for item in items:
            if isinstance(item, dict) and field.schema is not None:
                yield from number_texts(item, field.schema)
            elif isinstance(item, str) and (
                field.type in ("quantity", "intorstring") or key in ("resourceVersion", "expression")
            ):
                yield item


@pytest.mark.parametrize("number", range(8))
def test_only_public_words_of_a_cluster_survive(number: int) -> None:
    case = generate(f"words/{number}", features=frozenset(("volumes", "devices", "groups")))
    before = {text for item in texts_in(case.objects) for text in words(item)}
    after = {text for item in texts_in(Anonymizer(case.objects).anonymized()) for text in words(item)}
    public = {
        text for item in (*PUBLIC_WORDS, *FUNCTIONS, *FIELDS, *ROOTS, *schema_fields(), *PARTS) for text in words(item)
    }
    assert before & after <= public


def words(text: str) -> list[str]:
    return [
        word for word in re.findall(r"[A-Za-z]\w+", text) if not re.fullmatch(r"x\d+|[TZeE]\w?|[munkMGTPEi]+", word)
    ]


def schema_fields() -> set[str]:
    return {field.name for fields in tables().types.values() for field in fields}


@pytest.mark.parametrize(
    ("expression", "is_same"),
    {
        'device.attributes["gpu.acme.com"].model == "A100"': True,
        'device.attributes["gpu.acme.com"].model.startsWith("A1")': True,
        '!device.attributes["gpu.acme.com"]["model"].lowerAscii().contains("a1") // acme': True,
        'device.driver.matches("^gpu[.]acme")': True,
        'device.attributes["gpu.acme.com"].serial > 1000': True,
        'device.attributes["gpu.acme.com"].version.isGreaterThan(semver("1.2.0"))': True,
        'device.capacity["gpu.acme.com"].memory.compareTo(quantity("10Gi")) >= 0': True,
        'device.attributes["gpu.acme.com"].model.size() == 4': False,
    }.items(),
)
def test_expressions_select_the_same_devices(expression: str, is_same: bool) -> None:
    devices = [
        {
            "name": f"d{number}",
            "attributes": {
                "model": {"string": model},
                "serial": {"int": 990 + 10 * number},
                "version": {"version": f"1.{number}.0"},
            },
            "capacity": {"memory": {"value": f"{8 * number}Gi"}},
        }
        for number, model in enumerate(("A100", "A10", "H100", "a100"))
    ]
    pool = {"name": "acme-pool", "generation": 1, "resourceSliceCount": 1}
    part = {**DEVICES, "kind": "ResourceSlice", "metadata": {"name": "slice"}}
    part["spec"] = {"driver": "gpu.acme.com", "pool": pool, "devices": devices}
    chosen = {**DEVICES, "kind": "DeviceClass", "metadata": {"name": "gpus"}}
    chosen["spec"] = {"selectors": [{"cel": {"expression": expression}}]}

    def selected(contents: list[dict[str, Any]]) -> list[bool]:
        spec = convert(ResourceSlice, contents[0]).spec
        program = Program(contents[1]["spec"]["selectors"][0]["cel"]["expression"])
        return [program.matches(Facts(spec.driver, device)) for device in spec.devices]

    anonymizer = Anonymizer([part, chosen])
    renamed = anonymizer.anonymized()
    assert "acme" not in json.dumps(renamed)
    assert bool(anonymizer.changed_expressions) is not is_same
    assert not is_same or selected(renamed) == selected([part, chosen])


def test_numbers_that_no_expression_reads_are_ranks() -> None:
    attributes = [{"serial": {"int": number}} for number in (700, 300, 700)]
    devices = [{"name": f"d{number}", "attributes": item} for number, item in enumerate(attributes)]
    part = {**DEVICES, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"driver": "d", "devices": devices}}
    (renamed,) = Anonymizer([part]).anonymized()
    assert [next(iter(item["attributes"].values())) for item in renamed["spec"]["devices"]] == [
        {"int": 2},
        {"int": 1},
        {"int": 2},
    ]


def test_attributes_of_another_type_than_their_field_are_dropped() -> None:
    attributes = {"a": {"bool": "acme"}, "b": {"bools": [True, "acme"]}, "c": {"bools": [True, False]}}
    spec = {"driver": "d", "devices": [{"name": "d0", "attributes": attributes}]}
    (renamed,) = Anonymizer(
        [{**DEVICES, "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": spec}]
    ).anonymized()
    assert [*renamed["spec"]["devices"][0]["attributes"].values()] == [{}, {}, {"bools": [True, False]}]


def test_numbers_remain_where_selectors_compare_them() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"gen": "7", "serial": "12345"}}}
    waiting = pod("a")
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    waiting["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    renamed, _ = Anonymizer([node, waiting]).anonymized()
    assert set(renamed["metadata"]["labels"].values()) & {"7", "12345"} == {"7"}


def settled_workloads() -> list[dict[str, Any]]:
    """Workloads with all their pods, as the controllers of a cluster have made them."""
    contents: list[dict[str, Any]] = []

    @in_virtual_time
    async def settle() -> None:
        async with Cluster(nodes=2) as cluster:
            await cluster.apply(FAST, *(secret_workload(kind, kind.lower()) for kind in WORKLOADS))
            await cluster.wait_for(lambda: len(cluster.running()) == len(WORKLOADS) + 1)  # of daemons there are two
            contents.extend((await read_cluster(cluster.client)).contents)

    settle()
    return contents


def test_anonymized_workloads_remain_stable() -> None:
    """Controllers neither create nor delete pods: names and labels still match, and times are still valid."""
    renamed = Anonymizer(settled_workloads()).anonymized()
    ran = simulate(cluster_from_documents(to_documents(renamed, source="here")), load_policy(collect_plugins()))
    assert ran.decisions == []


def test_anonymized_gangs_remain_gangs() -> None:
    waits = pod("a")
    waits["metadata"]["annotations"] = {"moorage.io/gang": "team-ring", "moorage.io/gang-size": "3"}
    (pod_content,) = (content for content in read(waits).contents if content["kind"] == "Pod")
    assert pod_content["metadata"]["annotations"] == waits["metadata"]["annotations"]
    (renamed,) = Anonymizer([pod_content]).anonymized()
    gang = renamed["metadata"]["annotations"]
    assert gang["moorage.io/gang-size"] == "3"
    assert gang["moorage.io/gang"] != "team-ring"


def test_durations_of_pods_remain() -> None:
    annotations = {"moorage.io/run-for": "1h30m", "team": "1h30m"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": {}}
    ((renamed,),) = (Anonymizer([pod]).anonymized(),)
    assert renamed["metadata"]["annotations"].pop("moorage.io/run-for") == "1h30m"
    assert "1h30m" not in renamed["metadata"]["annotations"].values()
