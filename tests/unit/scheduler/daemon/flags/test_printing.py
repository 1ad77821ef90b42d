"""The pages made from the table of flags."""

from pathlib import Path

import pytest

from moorage.scheduler.daemon.flags.parsing import parse
from moorage.scheduler.daemon.flags.printing import flagz_values, help_page, reference_page
from moorage.scheduler.daemon.flags.table import FLAGS, GROUPS

ROOT = Path(__file__).parents[5]


def test_help_has_every_group_and_flag() -> None:
    page = help_page()
    assert all(f"\n{group} flags:\n" in page for group in GROUPS)
    assert all(f"--{name}" in page for name in FLAGS)
    assert "-v, --v Level" in page
    assert "(default 10259)" in page


FLAGZ = {
    "a number": ("v", "3"),
    "a list of certificates": ("tls-sni-cert-key", "[a,b:c]"),
    "a switch": ("leader-elect", "false"),
    "a default": ("leader-elect-lease-duration", "15s"),
    "a list": ("authorization-always-allow-paths", "[/healthz,/readyz,/livez]"),
    "an empty list": ("emulated-version", "[]"),
    "an empty map": ("allow-metric-labels", "[]"),
    "gates, by component": ("feature-gates", ":A=true,:B=false,:C=true"),
    "levels of modules": ("vmodule", "a=3"),
}


@pytest.mark.parametrize(("name", "value"), FLAGZ.values(), ids=FLAGZ)
def test_flagz_has_every_value_as_upstream_prints_it(name: str, value: str) -> None:
    arguments = ["--v=3", "--tls-sni-cert-key=a,b:c", "--leader-elect=false", "--vmodule=a=3"]
    values = flagz_values(parse([*arguments, "--feature-gates=A=true,B=false", "--feature-gates=C=true"]))
    assert list(values) == sorted(FLAGS)
    assert values[name] == value


def test_documentation_matches_the_table() -> None:
    page = (ROOT / "docs/reference/flags.md").read_text(encoding="utf-8")
    assert page == reference_page(), "run python -m moorage.scheduler.daemon.flags.printing > docs/reference/flags.md"
