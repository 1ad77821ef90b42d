"""Candidates in a process with limits: measures, fifty kinds of misbehavior, and the cache."""

from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.lab.evaluating import MIB, Evaluation, evaluate

EXPERIMENT = """
name: small
traces: [{preset: batch, pods: 30}]
clusters: [{name: c, pools: [{name: p, count: 3, cpu: 16, memory: 64Gi}]}]
configurations: [{name: default}]
seeds: 1
"""


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evaluate") / "e.yaml"
    path.write_text(EXPERIMENT)
    return path


def test_measures_of_a_candidate_are_returned(experiment: Path) -> None:
    result = evaluate("def score(pod, node):\n    return 50\n", experiment)
    assert result.status == "ok", result
    assert result.measures["unplaced"] == 0
    assert 0 < result.measures["allocation.cpu"] < 1


def prefer_first(pod, node):  # type: ignore[no-untyped-def]
    return 100 if node.name.endswith("-0") else 0


def test_functions_and_code_give_the_same_result_and_order_nodes(experiment: Path) -> None:
    first = evaluate(prefer_first, experiment)
    code = "def score(pod, node):\n    return 100 if node.name.endswith('-0') else 0\n"
    assert first.is_ok, first
    assert evaluate(code, experiment) == first
    spread = evaluate("score = lambda pod, node: 0 if node.pods else 100", experiment)
    assert first.measures["nodes.used"] < spread.measures["nodes.used"]


BODY = "def score(pod, node):\n    "
HOSTILE: dict[str, tuple[str, str]] = {
    "syntax error": ("def score(pod, node:\n", "syntax"),
    "null byte": ("x = 1\0", "syntax"),
    "invalid indentation": ("def score(pod, node):\nreturn 1\n", "syntax"),
    "deep nesting": ("x = " + "(" * 5000 + ")" * 5000, "syntax"),
    "no function": ("x = 1\n", "raised"),
    "not callable": ("score = 5\n", "raised"),
    "wrong number of parameters": ("def score(pod):\n    return 1\n", "raised"),
    "raises": (BODY + "return 1 / 0", "raised"),
    "raises at import": ("raise RuntimeError('at import')\n", "raised"),
    "missing module": ("import nothing_of_this_name\n", "raised"),
    "unknown attribute": (BODY + "return pod.nothing", "raised"),
    "endless recursion": (BODY + "return score(pod, node)", "raised"),
    "SystemExit": (BODY + "raise SystemExit(0)", "raised"),
    "KeyboardInterrupt": (BODY + "raise KeyboardInterrupt", "raised"),
    "exception without text": (
        "class E(Exception):\n    def __str__(self):\n        raise ValueError\n" + BODY + "raise E",
        "raised",
    ),
    "too large": (BODY + "return 101", "out of range"),
    "negative": (BODY + "return -1", "out of range"),
    "not a number": (BODY + "return float('nan')", "out of range"),
    "infinite": (BODY + "return float('inf')", "out of range"),
    "None": (BODY + "return None", "out of range"),
    "text": (BODY + "return '50'", "out of range"),
    "huge integer": (BODY + "return 10 ** 400", "out of range"),
    "bool": (BODY + "return True", "out of range"),
    "hangs": (BODY + "while True: pass", "timeout"),
    "hangs at import": ("while True: pass\n", "timeout"),
    "sleeps": ("import time\n" + BODY + "time.sleep(1000)", "timeout"),
    "catches everything": (BODY + "while True:\n        try: 1 / 0\n        except BaseException: pass", "timeout"),
    "memory": (BODY + "return len(bytearray(10 ** 11))", "memory"),
    "growing list": ("kept = []\n" + BODY + "kept.append(bytearray(10 ** 9))\n    return 1", "memory"),
    "opens a connection": (
        "import socket\n" + BODY + "socket.create_connection(('127.0.0.1', 9))\n    return 1",
        "raised",
    ),
    "starts a process": ("import os\n" + BODY + "os.system('true')\n    return 1", "raised"),
    "forks": ("import os\n" + BODY + "os.fork()\n    return 1", "raised"),
    "writes a file": (BODY + "open('/tmp/moorage-candidate', 'w')\n    return 1", "raised"),
    "removes a file": ("import os\n" + BODY + "os.remove('/tmp/moorage-candidate')\n    return 1", "raised"),
    "kills its parent": ("import os\n" + BODY + "os.kill(os.getppid(), 9)\n    return 1", "raised"),
    "reads a file": (BODY + "return len(open('/etc/hostname').read())", "raised"),
    "imports internals": ("import moorage.lab.measuring\n" + BODY + "return 50", "raised"),
    "replaces the trial": (
        "from moorage.lab import evaluating\nevaluating.run_trial = lambda trial: None\n" + BODY + "return 50",
        "raised",
    ),
    "reads frames": ("import sys\n" + BODY + "return len(sys._getframe(1).f_locals)", "raised"),
    "searches objects": ("import gc\n" + BODY + "return len(gc.get_objects())", "raised"),
    "removes builtins": ("import builtins\n" + BODY + "del builtins.isinstance", "raised"),
    "closes all files": ("import os\n" + BODY + "os.closerange(0, 1000)", "crashed"),
    "writes to all files": (
        "import os\n" + BODY + "for file in range(64):\n        try: os.write(file, b'????{}')\n"
        "        except OSError: pass\n    return 50",
        "crashed",
    ),
    "starts a process directly": (
        "import subprocess\n" + BODY + "subprocess.Popen(['sleep', '9'], start_new_session=True)",
        "raised",
    ),
    "stops itself": ("import signal\n" + BODY + "signal.raise_signal(signal.SIGSTOP)", "timeout"),
    "writes a part of a result": (
        "import os, struct, time\n" + BODY + "for file in range(3, 64):\n"
        "        try: os.write(file, struct.pack('!i', 1000))\n        except OSError: pass\n    time.sleep(1000)",
        "timeout",
    ),
    "ignores signals": (
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n" + BODY + "while True: pass",
        "timeout",
    ),
    "hangs in C": ("import re\n" + BODY + "re.match('(a+)+$', 'a' * 60 + 'b')", "timeout"),
    "generator": (BODY + "yield 50", "out of range"),
    "coroutine": ("async def score(pod, node):\n    return 50", "out of range"),
    "number that lies": (
        "class Score(int):\n    def __le__(self, other): return True\n    def __ge__(self, other): return True\n"
        + BODY
        + "return Score(10 ** 9)",
        "raised",
    ),
    "changes the node": (BODY + "node.allocatable['cpu'] = 10 ** 9", "raised"),
    "changes the pod": (BODY + "pod.spec.containers = ()", "raised"),
    "exits at once": ("import os\n" + BODY + "os._exit(0)", "crashed"),
    "prints without end of line": ("for _ in range(10**5): print('x' * 100, end='')\nraise ValueError\n", "raised"),
}


FORGED = 'import os, struct\nm = b\'{"status":"ok","measures":{"unplaced":-1.0}}\'\n'
CHEATS: dict[str, str] = {
    "forges the result": FORGED
    + BODY
    + "for f in range(3, 64):\n        try: os.write(f, struct.pack('!i', len(m)) + m)\n"
    "        except OSError: pass\n    os._exit(0)",
    "changes the requests of pods": BODY + "pod.requests['cpu'] = 0\n    return 50",
    "changes the result in a frame": (
        BODY + "try: raise ValueError\n    except ValueError as e: frame = e.__traceback__.tb_frame\n"
        "    while frame:\n        if isinstance(frame.f_locals.get('rows'), list):\n"
        "            frame.f_locals['rows'].append({'unplaced': -9.0})\n        frame = frame.f_back\n    return 50"
    ),
    "replaces the mean": "import os\nos.sys.modules['moorage.lab.evaluating'].fmean = lambda x: -42.0\n"
    + BODY
    + "return 50",
    "replaces random numbers": "import random\nrandom.Random.random = lambda self: 0.5\n" + BODY + "return 50",
    "replaces rounding": "import math\nmath.ceil = math.floor = lambda x: 0\n" + BODY + "return 50",
}


@pytest.mark.parametrize("name", CHEATS)
def test_candidate_cannot_improve_its_measures_except_by_scores(experiment: Path, name: str) -> None:
    honest = evaluate(BODY + "return 50", experiment)
    result = evaluate(CHEATS[name], experiment)
    assert result.measures in ({}, honest.measures), result
    assert result.is_ok or result.error


def test_scores_that_do_not_fit_the_trial_are_reported(experiment: Path) -> None:
    result = evaluate(BODY + "pod.requests['cpu'] = 0\n    return 50", experiment)
    assert (result.status, result.measures) == ("not repeatable", {}), result
    assert "must not change pods" in result.error


def test_random_scores_are_repeated(experiment: Path) -> None:
    result = evaluate("import random\n" + BODY + "return random.randint(0, 100)", experiment)
    assert result.is_ok, result


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_candidate_fails_clearly(experiment: Path, name: str) -> None:
    code, status = HOSTILE[name]
    limit = 3.0 if status == "timeout" else 60.0
    result = evaluate(code, experiment, time_limit=limit, memory_limit=1024 * MIB)
    assert (result.status, bool(result.error), result.measures) == (status, True, {}), result


def test_plugin_is_loaded_by_name(experiment: Path) -> None:
    (experiment.parent / "my_scores.py").write_text(
        "from moorage import score_function\n\n\n@score_function\ndef flat_score(pod, node):\n    return 50\n"
    )
    result = evaluate("my_scores:flat_score", experiment)
    assert result.is_ok, result


def test_error_names_the_line_of_the_candidate(experiment: Path) -> None:
    result = evaluate("def score(pod, node):\n    x = 1\n    return x / 0\n", experiment)
    assert result.error == "ZeroDivisionError: division by zero (line 3)"
    assert result.rung == 0.1, "it failed on the small trace"


def test_results_are_cached_by_content(experiment: Path, tmp_path: Path) -> None:
    code = "def score(pod, node):\n    return 7\n"
    first = evaluate(code, experiment, cache=tmp_path)
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(path.read_bytes().replace(b'"unplaced":0.0', b'"unplaced":99.0'))
    assert evaluate(code, experiment, cache=tmp_path).measures["unplaced"] == 99.0
    assert first.measures["unplaced"] == 0.0
    assert evaluate(code.replace("7", "8"), experiment, cache=tmp_path).measures["unplaced"] == 0.0
    slow = evaluate("while True: pass", experiment, time_limit=0.5, cache=tmp_path)
    assert slow == Evaluation("timeout", error="no result after 0.5 seconds")
    assert len(list(tmp_path.glob("*.json"))) == 2, "a time limit depends on the machine"


def test_invalid_arguments_are_reported(experiment: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ladder"):
        evaluate("score = None", experiment, ladder=(0.0,))
    with pytest.raises(InputError, match="does not exist"):
        evaluate("score = None", tmp_path / "missing.yaml")
