"""Files that stand for more than they are long: an error with a place, never a traceback, and at once."""

import time
from pathlib import Path

import pytest
from tests.hostile.classes import CLASSES

from moorage.cli.main import run
from moorage.simulator.loading import load_cluster

DIGITS = "9" * 5000
POD = '{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p"}}, "spec": {{{}}}}}'
AMOUNT = '"containers": [{{"name": "c", "resources": {{"requests": {{"cpu": {}}}}}}}]'
FILES: dict[str, str] = {
    "aliases of aliases": CLASSES["aliases of aliases"].body.decode(),
    "merges of merges": CLASSES["merges of merges"].body.decode(),
    "brackets without end": "[" * 60_000,
    "levels without end, as JSON": '{"apiVersion": "v1", "kind": "Pod", "metadata": '
    + '{"a":' * 5000
    + "1"
    + "}" * 5001,
    "a quantity of 5,000 digits": POD.format(AMOUNT.format(f'"{DIGITS}"')),
    "a quantity that is such a number": POD.format(AMOUNT.format(DIGITS)),
    "a quantity of 300 digits": POD.format(AMOUNT.format(DIGITS[:300])),
    "a priority of 25 digits": POD.format('"priority": 1234567890123456789012345'),
    "a priority of 33 bits": POD.format('"priority": -4294967296'),
    "a grace period of 65 bits": POD.format('"terminationGracePeriodSeconds": 18446744073709551616'),
    "a quantity in other digits": POD.format(AMOUNT.format('"\u0663"')),
    "a time with other digits": POD.replace('"p"', '"p", "creationTimestamp": "2026-01-0\u0661T00:00:00Z"').format(""),
    "a priority of 5,000 digits": POD.format(f'"priority": {DIGITS}'),
    "a time that is none": "apiVersion: v1\nkind: Pod\nmetadata: {name: p, creationTimestamp: !!timestamp x}\n",
}


UP = ("up", "--nodes", "0", "--for", "1s", "-f")
CASES = [
    *((command, name) for command in (("simulate", "-f"), ("config", "check")) for name in FILES),
    # The rest are YAML, and objects that the server of the cluster refuses.
    *((UP, name) for name in ("aliases of aliases", "merges of merges", "brackets without end")),
]


@pytest.mark.parametrize(("command", "name"), CASES)
def test_such_a_file_is_refused(
    name: str, command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hostile"
    file.write_text(FILES[name])
    began = time.process_time()
    assert run((*command, str(file))) == 2
    assert time.process_time() - began < 5.0
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert str(file) in errors


def test_a_cluster_at_the_end_of_time_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hostile"
    file.write_text(POD.format("").replace('"p"', '"p", "creationTimestamp": "9999-12-31T23:59:59Z"'))
    assert run(("simulate", "-f", str(file))) == 0
    assert "default/p" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "read"),
    {
        r"\ud800": "\ufffd",
        r"a\udfffb": "a\ufffdb",
        r"\uD83D\uDE00": "\U0001f600",
        r"\\ud800": r"\ud800",
        r"\ud800\ud83d\ude00": "\ufffd\U0001f600",
    }.items(),
)
def test_half_a_character_is_read_as_go_reads_it(
    written: str, read: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hostile"
    file.write_text(POD.format("").replace('"p"', f'"p", "labels": {{"a": "{written}"}}'))
    assert run(("simulate", "-f", str(file))) == 0
    output = capsys.readouterr()
    assert "failed" not in output.out + output.err
    assert load_cluster([str(file)]).pending[0].labels == {"a": read}
