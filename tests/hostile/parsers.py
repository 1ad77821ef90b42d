"""`python -m tests.hostile.parsers [--seconds 16] [--seed SEED] [--only NAME]`: mutated input for each parser.

Every parser returns a value or raises a documented error, in bounded time and memory. A problem is printed with its
input; the seed repeats the same inputs.
"""

import argparse
import gzip
import random
import resource
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import structlog

from moorage.cluster.apiserver.discovery.custom_rules import definition_problems, rule_problems
from moorage.cluster.apiserver.requests.bodies import read_json, read_yaml
from moorage.cluster.apiserver.requests.protobuf import MAGIC, decode_protobuf
from moorage.common.errors import MoorageError
from moorage.insight.plan.plan_model import read_plan
from moorage.insight.snapshots.snapshot_file import read_snapshot
from moorage.kube.api.codec import UNREADABLE, decode
from moorage.kube.api.devices import Device, DeviceAttribute
from moorage.kube.api.documents import read_documents
from moorage.kube.api.pod import Pod
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.http.messages import HttpService, Reply
from moorage.kube.http.parsing import MalformedMessage, RequestParser, ResponseParser
from moorage.lab.forecasting import read_history
from moorage.lab.importing import import_pods
from moorage.lab.trace_files import read_trace
from moorage.scheduler.config import load_config_file
from moorage.scheduler.plugins.dynamic_resources.cel.program import Program, device_facts

MAX_SECONDS: Final = 5.0
"""CPU time for one input on a busy machine."""
MAX_GROWTH: Final = 256 << 20
MAX_MEMORY: Final = 4 << 30
MAX_INPUT: Final = 1 << 16

POD: Final = (
    b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}, "creationTimestamp": '
    b'"2026-01-01T00:00:00Z"}, "spec": {"priority": 5, "nodeSelector": null, "tolerations": [{"key": "k", '
    b'"operator": "Exists", "tolerationSeconds": 3}], "containers": [{"name": "c", "resources": {"requests": '
    b'{"cpu": "100m", "memory": 1.5e3}}, "ports": [{"hostPort": 80}]}]}}'
)
YAML: Final = b"a: &x [1, 2.5, true, ~, 0x1f, 2026-01-01]\nb: *x\nc: {<<: {d: e}}\n---\nf: |\n  text\n  more\ng: 'h'\n"
KUBECONFIG: Final = (
    b"apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- {name: a, context: {cluster: b, user: c}}\n"
    b"clusters:\n- {name: b, cluster: {server: 'https://127.0.0.1:6443/x', proxy-url: 'http://u:secret@p:1',\n"
    b"  tls-server-name: d}}\nusers:\n- {name: c, user: {%s}}\n"
)
USERS: Final = (
    b"token: t",
    b"username: u, password: p",
    b"exec: {command: e, args: [f], env: [{name: g, value: h}], apiVersion: client.authentication.k8s.io/v1,"
    b" interactiveMode: Never}",
)
CONFIG: Final = (
    b"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 16\n"
    b"leaderElection: {leaderElect: true, leaseDuration: 15s}\nprofiles:\n- schedulerName: a\n"
    b"  percentageOfNodesToScore: 50\n  plugins: {score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity,\n"
    b"    weight: 3}]}}\n  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]\n"
    b"extenders: [{urlPrefix: 'http://e:1', filterVerb: filter, httpTimeout: 3s, weight: 1}]\n"
)
HTTP: Final = (
    b"POST /a?b=c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;e=f\r\nabc\r\n0\r\nT: u\r\n\r\n",
    b"PUT http://h/b HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
)
RESPONSES: Final = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 429 No\r\nRetry-After: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
)
SELECTOR: Final = (
    b"device.driver == 'gpu.example' && device.attributes['gpu.example'].model.matches('^a[0-9]+(b|c)*$')",
    b"device.capacity['gpu.example'].memory.compareTo(quantity('4Gi')) >= 0 || [1, 2].exists(x, x > 1)",
    b"semver('1.2.3').isGreaterThan(semver('1.0.0')) ? {'a': 1}['a'] == 1 : b'x' == bytes('x')",
)
TRACE: Final = (
    b'{"name": "a", "arrives": 1.5, "runs": 60, "cpuMilli": 500, "memoryMib": 10, "gpus": 1, "gpuModels": ["T4"]}\n'
    b'{"name": "b", "priority": -5, "class": "x", "namespace": "n"}\n{"node": "m", "down": 3, "up": 9}\n'
)
CSV: Final = b'name,arrives,runs,cpuMilli,gpus,gpuModels\na,1,2,500,1,T4|V100\n"b,c",0.5,,100,0,\n'
SNAPSHOT: Final = (
    b'{"apiVersion":"v1","kind":"List","metadata":{"annotations":{"moorage.io/taken-at":"2026-01-01T00:00:00Z"}},'
    b'"items":[' + POD + b"]}"
)
LOG: Final = (
    b'{"pod":"a/b","profile":"p","result":"scheduled","node":"n","time":"2026-11-18T09:00:05Z","created":'
    b'"2026-11-18T09:00:00Z","requests":{"cpu":"2"},"uid":"u"}\n{"pod":"a/c","profile":"p","result":"unschedulable",'
    b'"node":"","time":"2026-11-18T09:00:06Z","created":"2026-11-18T09:00:01Z","requests":{},"uid":"v"}\n'
)
PLAN: Final = (
    b'{"goal":"drain","arguments":{"nodes":["n1"]},"cluster":{"fingerprint":"9548","takenAt":"2026-01-01T00:00:03Z"},'
    b'"feasible":true,"steps":[{"cordon":["n1"],"evict":[{"pod":"a/b","uid":"u","from":"n1","to":"n2","text":"t"}],"uncordon":[],'
    b'"budgets":[]}],"pending":[],"nodes":[{"name":"n1","podsBefore":1,"podsAfter":0,"usedBefore":0.5,"usedAfter":0.0}],'
    b'"summary":{"moves":1,"nodesEmptied":["n1"],"cost":0}}'
)
PUBLIC: Final = (
    b"job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
    b"a,u1,1,8,128,SFT,FAILED,2023-03-01 00:18:22+08:00,2023-03-01 00:18:54+08:00,2023-03-01 00:20:51+08:00,"
    b"117,32,936.0\nb,u2,2,16,1,X,COMPLETED,2023-03-01 00:18:22+08:00,,,0,0,0\n"
)
RULES: Final = (
    b"self.low <= self.high && self.names.all(n, n.matches('^[a-z]+$'))",
    b"!has(self.part) || self.part.text.split(',').map(t, t.trim()).join('-').replace('a', 'bb') != ''",
    b"oldSelf.low == self.low ? quantity(self.part.text).isLessThan(quantity('1Gi')) : self.names.exists(n, n == 'x')",
)
TOKENS: Final = (
    *(b"{", b"}", b"[", b"]", b"(", b")", b'"', b"'", b":", b",", b"\n", b"\r\n", b"\x00", b"\xff", b"\xed\xa0\x80"),
    *(
        b"null",
        b"true",
        b"NaN",
        b"-0",
        b"1e999",
        b"9" * 400,
        b"0x",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!python/object:x ",
        b"%s",
    ),
    *(
        b"\xe2\x80\xae",
        b"../",
        b"\x7f",
        b"~",
        b"|",
        b"---\n",
        b"\t",
        b"2147483648",
        b"-9223372036854775809",
        b"[" * 300,
    ),
)


class Target(NamedTuple):
    """A parser, the valid inputs to mutate, and the errors that it may raise."""

    parse: Callable[[bytes], object]
    inputs: Sequence[bytes]
    errors: tuple[type[BaseException], ...] = (MoorageError,)


def in_file(read: Callable[[Path], object], suffix: str = "") -> Callable[[bytes], object]:
    """Return a parser of bytes for a parser of files."""

    def parse(data: bytes) -> object:
        with tempfile.NamedTemporaryFile(prefix="moorage-fuzz-", suffix=suffix) as file:
            file.write(data)
            file.flush()
            return read(Path(file.name))

    return parse


def parse_requests(data: bytes) -> None:
    """Feed a request in pieces that depend on it."""

    def refuse(status: int, message: str) -> Reply:
        return Reply(status, message.encode())

    parser = RequestParser(HttpService(lambda _: Reply(200, b""), refuse, lambda _: 1000))
    piece = 1 + len(data) % 7
    for start in range(0, len(data), piece):
        parser.feed(data[start : start + piece])
        parser.advance()
        while parser.requests:
            request, _ = parser.requests.popleft()
            assert len(request.body) <= 1000
            _ = request.query
            parser.advance()
    parser.close()


def parse_response(data: bytes) -> None:
    """Feed a response in two pieces."""
    parser = ResponseParser()
    for piece in (data[: len(data) // 2], data[len(data) // 2 :]):
        parser.feed(piece)
        if parser.is_complete:
            parser.take()


def parse_selector(data: bytes) -> bool:
    """Compile and evaluate a device selector."""
    device = Device(name="d", attributes={"model": DeviceAttribute(string_value="a100")})
    return Program(data.decode(errors="replace")).matches(device_facts("gpu.example", device))


def evaluate_rule(data: bytes) -> None:
    """Compile a rule of a custom resource, and evaluate it for an object."""
    texts = {"type": "array", "items": {"type": "string"}}
    part = {"type": "object", "properties": {"text": {"type": "string"}}}
    schema = {
        "type": "object",
        "properties": {"low": {"type": "integer"}, "high": {"type": "number"}, "names": texts, "part": part},
        "x-kubernetes-validations": [{"rule": data.decode(errors="replace"), "messageExpression": "self.part.text"}],
    }
    list(definition_problems(schema, "schema"))
    new = {"low": 1, "high": 2, "names": ["abc"] * 300, "part": {"text": "5,a" * 3000}}
    list(rule_problems(new, schema, {**new, "low": 0}))


def import_trace(name: str) -> Callable[[Path], object]:
    """Return a parser of a public format."""
    return lambda path: list(import_pods(name, path))


def simkube_trace() -> bytes:
    """Return a deployment that is scaled, in SimKube's format."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}
    events = [
        {
            "ts": 100 + count,
            "applied_objs": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "w", "namespace": "n"},
                    "spec": {"replicas": count, "template": template},
                }
            ],
        }
        for count in (1, 3, 2)
    ]
    config = {"trackedObjects": {"apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]}}}
    return msgspec.msgpack.encode({"version": 2, "config": config, "events": events, "index": {}})


def envelopes() -> list[bytes]:
    """Return a pod in Kubernetes' protobuf, written by hand: nested messages, a map, text and numbers."""

    def field(number: int, content: bytes | int) -> bytes:
        if isinstance(content, int):
            return bytes((number << 3, content))
        return bytes((number << 3 | 2, len(content))) + content

    labels = field(11, field(1, b"app") + field(2, b"web"))
    metadata = field(1, b"p") + field(3, b"default") + field(8, field(1, 5)) + labels
    container = field(1, b"c") + field(2, b"image") + field(6, field(2, 80))
    pod = field(1, metadata) + field(2, field(2, container) + field(3, b"Always") + field(4, 30))
    return [MAGIC + field(1, field(1, b"v1") + field(2, b"Pod")) + field(2, pod)]


TARGETS: Final[dict[str, Target]] = {
    "kubeconfig": Target(
        in_file(lambda path: load_connection(str(path), environ={})), [KUBECONFIG % user for user in USERS]
    ),
    "configuration": Target(in_file(load_config_file, ".yaml"), [CONFIG]),
    "YAML": Target(lambda data: [*read_documents(data.decode(errors="replace"), source="input")], [YAML, CONFIG, POD]),
    "YAML of requests": Target(read_yaml, [YAML.partition(b"---")[0], POD]),
    "JSON": Target(lambda data: decode(Pod, data), [POD], UNREADABLE),
    "JSON of requests": Target(read_json, [POD]),
    "protobuf": Target(decode_protobuf, envelopes()),
    "requests": Target(parse_requests, HTTP),
    "responses": Target(parse_response, RESPONSES, (MalformedMessage,)),
    "CEL": Target(parse_selector, SELECTOR),
    "traces": Target(in_file(read_trace, ".jsonl"), [TRACE]),
    "CSV traces": Target(in_file(read_trace, ".csv"), [CSV]),
    "histories": Target(in_file(lambda path: read_history(path, "team"), ".jsonl"), [LOG, TRACE]),
    "public traces": Target(in_file(import_trace("acme"), ".csv"), [PUBLIC]),
    "traces of objects": Target(in_file(import_trace("simkube"), ".sktrace"), [simkube_trace()]),
    "plans": Target(in_file(lambda path: read_plan(str(path)), ".json"), [PLAN]),
    "rules of custom resources": Target(evaluate_rule, RULES),
    "snapshots": Target(in_file(lambda path: read_snapshot(str(path)), ".json"), [SNAPSHOT]),
    "compressed snapshots": Target(
        in_file(lambda path: read_snapshot(str(path)), ".json.gz"), [gzip.compress(SNAPSHOT, mtime=0)]
    ),
}


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Change a few places: bytes, repeated and removed parts, and tokens that parsers treat specially."""
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((0, 1, 1, 4, 30)))
        match chance.randrange(6):
            case 0:
                piece = bytes((chance.randrange(256),))
            case 1:
                piece = b""
            case 2:
                piece = chance.choice(TOKENS)
            case 3:
                piece = data[start:end] * chance.choice((2, 2, 50))
            case 4:
                other = chance.randrange(len(data) + 1)
                piece = data[other : other + chance.randrange(40)]
            case _:
                piece = data[start:end].swapcase()
        data = (data[:start] + piece + data[end:])[:MAX_INPUT]
    return data


def problems_of(name: str, target: Target, seed: str, seconds: float) -> tuple[int, list[str]]:
    """Parse mutated inputs for some time; return their number and the problems."""
    for valid in target.inputs:
        target.parse(valid)
    chance, deadline = random.Random(f"{seed} {name}"), time.monotonic() + seconds
    count = 0
    problems: list[str] = []
    while time.monotonic() < deadline and len(problems) < 5:
        count += 1
        data = mutate(chance.choice(target.inputs), chance)
        before, began = peak(), time.process_time()
        problem = ""
        try:
            target.parse(data)
        except target.errors:
            pass
        except BaseException as error:
            problem = f"{type(error).__name__}: {error}"
        if (took := time.process_time() - began) > MAX_SECONDS:
            problem = f"took {took:.1f} s"
        if (grown := peak() - before) > MAX_GROWTH:
            problem = f"took {grown >> 20} MiB"
        if problem:
            problems.append(f"{name}: {problem[:500]}: {data[:4000]!r}")
    return count, problems


def drop(*_: object) -> str:
    """Log nothing."""
    raise structlog.DropEvent


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=16.0, help="time for all parsers together")
    parser.add_argument("--seed", default=secrets.token_hex(4))
    parser.add_argument("--only", choices=TARGETS, help="one parser")
    options = parser.parse_args()
    structlog.configure(processors=[drop])
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    names = [options.only] if options.only else [*TARGETS]
    failed = False
    print(f"{options.seconds:g} s, --seed {options.seed}", flush=True)  # noqa: T201 - a command
    for name in names:
        count, problems = problems_of(name, TARGETS[name], options.seed, options.seconds / len(names))
        print(f"{name}: {count} inputs, {len(problems)} problems", *problems, sep="\n  ", flush=True)  # noqa: T201
        failed = failed or bool(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
