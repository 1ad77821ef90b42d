"""The pages made from the table of flags."""

from pathlib import Path

from moorage.app.flags.parsing import parse
from moorage.app.flags.printing import flagz_page, help_page, reference_page
from moorage.app.flags.table import FLAGS, GROUPS

ROOT = Path(__file__).parents[4]


def test_help_has_every_group_and_flag() -> None:
    page = help_page()
    assert all(f"\n{group} flags:\n" in page for group in GROUPS)
    assert all(f"--{name}" in page for name in FLAGS)
    assert "-v, --v Level" in page
    assert "(default 10259)" in page


def test_flagz_has_every_value() -> None:
    lines = flagz_page(parse(["--v=3", "--tls-sni-cert-key=a,b:c", "--leader-elect=false"])).splitlines()
    assert len(lines) == len(FLAGS)
    assert lines == sorted(lines, key=lambda line: line.partition("=")[0])
    assert {"v=3", "tls-sni-cert-key=a,b:c", "leader-elect=false", "leader-elect-lease-duration=15s"} <= {*lines}


def test_the_documentation_is_what_the_table_says() -> None:
    written = (ROOT / "docs/reference/flags.md").read_text(encoding="utf-8")
    assert written == reference_page(), "run python -m moorage.app.flags.printing > docs/reference/flags.md"
