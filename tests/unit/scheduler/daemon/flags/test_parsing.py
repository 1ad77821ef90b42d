"""Command lines in kube-scheduler's syntax."""

from typing import Any

import pytest

from moorage.scheduler.config.durations import Duration
from moorage.scheduler.daemon.flags.parsing import UsageError, help_page, parse
from moorage.scheduler.daemon.flags.table import FLAGS, GROUPS, NamedCertificate

READS: dict[str, tuple[list[str], str, Any]] = {
    "a value after an equals sign": (["--config=a.yaml"], "config", "a.yaml"),
    "a value as the next word": (["--config", "a.yaml"], "config", "a.yaml"),
    "an underscore is a dash": (["--leader_elect_resource_name=x"], "leader-elect-resource-name", "x"),
    "a switch alone is on": (["--authentication-skip-lookup"], "authentication-skip-lookup", True),
    "a switch takes its value after an equals sign only": (["--leader-elect=false"], "leader-elect", False),
    "Go's spellings of booleans": (["--leader-elect=F"], "leader-elect", False),
    "verbosity as a short flag with a sign": (["-v=4"], "v", 4),
    "verbosity as a short flag without one": (["-v4"], "v", 4),
    "verbosity as a short flag and a word": (["-v", "4"], "v", 4),
    "verbosity as a long flag": (["--v", "4"], "v", 4),
    "the last mention wins": (["--v=1", "--v=3"], "v", 3),
    "a list is joined over mentions": (
        ["--tls-cipher-suites=A,B", "--tls-cipher-suites", "C"],
        "tls-cipher-suites",
        ("A", "B", "C"),
    ),
    "a list's first mention replaces its default": (
        ["--authorization-always-allow-paths=/metrics"],
        "authorization-always-allow-paths",
        ("/metrics",),
    ),
    "an empty list": (["--authorization-always-allow-paths="], "authorization-always-allow-paths", ()),
    "gates are collected": (
        ["--feature-gates=A=true", "--feature-gates=B=false"],
        "feature-gates",
        ("A=true", "B=false"),
    ),
    "a duration": (["--leader-elect-retry-period=1m30s"], "leader-elect-retry-period", Duration.of(seconds=90)),
    "a port of zero": (["--secure-port=0"], "secure-port", 0),
    "one map entry with commas": (["--allow-metric-labels=m,l=a,b"], "allow-metric-labels", {"m,l": "a,b"}),
    "map entries in quotes": (
        ["--allow-metric-labels=m,l='a,b',n,k='c'"],
        "allow-metric-labels",
        {"m,l": "a,b", "n,k": "c"},
    ),
    "a certificate for names": (
        ["--tls-sni-cert-key=a.crt,a.key:*.foo.com,foo.com"],
        "tls-sni-cert-key",
        (NamedCertificate("a.crt", "a.key", ("*.foo.com", "foo.com")),),
    ),
    "levels of modules": (["--vmodule=queue*=5,binding=4"], "vmodule", {"queue*": 5, "binding": 4}),
    "an amount of bytes": (["--log-json-info-buffer-size=2Ki"], "log-json-info-buffer-size", 2048),
    "a hexadecimal number": (["--secure-port=0x10"], "secure-port", 16),
    "the version in full": (["--version=raw"], "version", "raw"),
    "several plugins": (["--plugin=a:B", "--plugin", "c:D"], "plugin", ("a:B", "c:D")),
}


@pytest.mark.parametrize(("arguments", "name", "want"), READS.values(), ids=READS)
def test_reading(arguments: list[str], name: str, want: Any) -> None:
    values = parse(arguments)
    assert values[name] == want
    assert values.is_given(name)


REFUSED: dict[str, tuple[list[str], str]] = {
    "a removed flag reports its replacement": (
        ["--port=10251"],
        "unknown flag: --port\n  hint: removed: insecure serving is not supported; use --secure-port",
    ),
    "an unknown flag suggests the closest": (
        ["--leader-elec"],
        "unknown flag: --leader-elec\n  hint: did you mean '--leader-elect'?",
    ),
    "an unknown letter": (["-x"], "unknown shorthand flag: 'x' in -x"),
    "words, in upstream's words": (["a", "b"], '"kube-scheduler" does not take any arguments, got ["a" "b"]'),
    "words after two dashes": (["--", "--v"], '"kube-scheduler" does not take any arguments, got ["--v"]'),
    "a value after a switch is a word": (["--leader-elect", "false"], 'does not take any arguments, got ["false"]'),
    "a flag without its value": (["--config"], "flag needs an argument: --config"),
    "no name": (["--=x"], "bad flag syntax: --=x"),
    "a duration without a unit": (
        ["--leader-elect-lease-duration=5"],
        'invalid argument "5" for "--leader-elect-lease-duration" flag: time: missing unit in duration "5"',
    ),
    "an invalid number": (
        ["-v=x"],
        'invalid argument "x" for "-v, --v" flag: strconv.ParseInt: parsing "x": invalid syntax',
    ),
    "a number that does not fit": (["--kube-api-burst=3000000000"], "value out of range"),
    "an invalid fraction": (["--kube-api-qps=many"], 'strconv.ParseFloat: parsing "many": invalid syntax'),
    "an invalid boolean": (["--leader-elect=yes"], 'strconv.ParseBool: parsing "yes": invalid syntax'),
    "an invalid address": (["--bind-address=here"], 'failed to parse IP: "here"'),
    "a certificate without a key": (
        ["--tls-sni-cert-key=a.crt"],
        "expected comma separated certificate and key file paths",
    ),
    "a module without a level": (["--vmodule=queue"], "syntax error: expect comma-separated list of filename=N"),
    "a map without a value": (["--allow-metric-labels=m"], "m must be formatted as key=value"),
    "invalid bytes": (["--log-text-info-buffer-size=lots"], "--log-text-info-buffer-size"),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_are_rejected(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(arguments)
    assert message in str(raised.value)


#: A value for each type, in flag syntax.
EXAMPLES = {
    "string": "text",
    "bool": "true",
    "int": "7",
    "int32": "7",
    "float32": "7.5",
    "duration": "7s",
    "ip": "127.0.0.1",
    "strings": "a,b",
    "int32Slice": "29,23",
    "stringToString": "m,l=a",
    "namedCertKey": "a.crt,a.key",
    "quantity": "7Ki",
    "Level": "7",
    "pattern=N,...": "a=7",
    "gates": "A=true",
    "version": "raw",
    "module:Class": "a:B",
}


@pytest.mark.parametrize("name", FLAGS)
def test_every_flag_can_be_given_and_has_its_default_otherwise(name: str) -> None:
    flag = FLAGS[name]
    values = parse([f"--{name}={EXAMPLES[flag.kind.name]}"])
    assert values.is_given(name)
    assert values[name] == flag.kind.read(EXAMPLES[flag.kind.name])
    assert parse([])[name] == flag.default
    assert not parse([]).is_given(name)


def test_flags_without_effect_are_reported() -> None:
    assert dict(parse(["--log-flush-frequency=1s", "--config=x"]).moot()) == {
        "log-flush-frequency": "logs are one stream without a buffer"
    }
    reason = "--config is set; use clientConnection.kubeconfig in that file"
    assert dict(parse(["--kubeconfig=y", "--config=x"]).moot()) == {"kubeconfig": reason}
    assert not dict(parse(["--kubeconfig=y"]).moot())


def test_help_is_printed_with_any_other_flags() -> None:
    assert parse(["-h", "what"])["help"] is True


def test_help_has_every_group_and_flag() -> None:
    page = help_page()
    assert all(f"\n{group} flags:\n" in page for group in GROUPS)
    assert all(f"--{name}" in page for name in FLAGS)
    assert "-v, --v Level" in page
    assert "(default 10259)" in page
