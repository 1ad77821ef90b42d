"""Figures as PDF: its structure, and the same coordinates as in the SVG."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from moorage.lab.report.pdf import svg_as_pdf

STYLE = (
    "text{font:12px Helvetica,Arial,sans-serif;fill:#16212b}.name{font-weight:600}.line{fill:none;stroke:currentColor;"
    "stroke-width:2.2}.band{fill:currentColor;opacity:.13}.c0{color:#00796b}"
)


def figure(*elements: str) -> bytes:
    return svg_as_pdf(
        f'<svg viewBox="0 -24 520 274" xmlns="http://www.w3.org/2000/svg"><title>t</title><style>{STYLE}</style>'
        f"{''.join(elements)}</svg>"
    )


def commands(pdf: bytes) -> list[str]:
    match = re.search(rb"<< /Length (\d+) >>\nstream\n(.*)\nendstream", pdf, re.DOTALL)
    assert match is not None
    assert len(match[2]) == int(match[1])
    return match[2].decode("cp1252").splitlines()


def test_offsets_of_all_objects_are_correct() -> None:
    pdf = figure('<path class="line c0" d="M1 2L3 4"/>')
    start = int(re.search(rb"startxref\n(\d+)", pdf)[1])  # type: ignore[index]
    assert pdf[start:].startswith(b"xref\n")
    offsets = [int(offset) for offset in re.findall(rb"(\d{10}) 00000 n", pdf[start:])]
    assert [pdf[offset:].split(b" ")[0] for offset in offsets] == [b"%d" % number for number in range(1, 7)]
    assert b"/MediaBox [0 0 520 274]" in pdf
    assert commands(pdf)[0] == "1 0 0 -1 0 250 cm", "the upper edge of the figure is the upper edge of the page"


ELEMENTS = {
    "a line has the color of its class": (
        '<path class="line c0" stroke-dasharray="10 3" d="M1 2L3 4H9V7"/>',
        ["0.000 0.475 0.420 RG 2.2 w 0 J 1 j [10 3] 0 d", "1 2 m", "3 4 l", "9 4 l", "9 7 l", "S"],
    ),
    "a band is filled and transparent": (
        '<path class="band c0" d="M1 2L3 4Z"/>',
        ["q /G1 gs", "0.000 0.475 0.420 rg", "1 2 m", "3 4 l", "h", "f"],
    ),
    "a rectangle": ('<rect class="c0" x="1" y="2" width="3" height="4" rx="2"/>', ["1 2 3 4 re", "f"]),
    "a text that ends at its position": (
        '<text x="100" y="20" class="tick" text-anchor="end">50%</text>',
        ["BT /F0 12 Tf 1 0 0 -1 75.99 20 Tm (50%) Tj ET"],
    ),
    "bold text, with characters that PDF escapes": (
        '<text x="0" y="1" class="name">a (b) \\ ü 中</text>',
        ["BT /F1 12 Tf 1 0 0 -1 0.00 1 Tm (a \\(b\\) \\\\ ü ?) Tj ET"],
    ),
}


@pytest.mark.parametrize(("element", "expected"), ELEMENTS.values(), ids=ELEMENTS)
def test_elements(element: str, expected: list[str]) -> None:
    drawn = commands(figure(element))
    assert [command for command in drawn if command in expected] == expected


def test_circle_passes_its_four_extremes() -> None:
    drawn = [command.split() for command in commands(figure('<circle class="c0" cx="10" cy="20" r="5"/>'))]
    ends = [tuple(map(float, command[-3:-1])) for command in drawn if command[-1] in ("m", "c")]
    assert ends == [(15, 20), (10, 25), (5, 20), (10, 15), (15, 20)]


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs poppler-utils")
def test_another_program_reads_the_text(tmp_path: Path) -> None:
    (tmp_path / "figure.pdf").write_bytes(figure('<text x="10" y="20">GPUs allocated</text>'))
    command = ["pdftotext", str(tmp_path / "figure.pdf"), "-"]
    assert subprocess.run(command, capture_output=True, check=True).stdout.strip() == b"GPUs allocated"
