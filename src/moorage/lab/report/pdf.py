"""Converts the charts of a report to PDF: vector graphics for papers, with the same colors as the SVG files.

Only the elements of ``svg.py`` are supported. The font is Helvetica, which every PDF viewer has. It is not embedded.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element, fromstring

Style = dict[str, str]
_FONTS: Final = ("Helvetica", "Helvetica-Bold")
_WIDTHS: Final = (
    (
        *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, *(556,) * 10, 278, 278),
        *(584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667),
        *(778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556),
        *(278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500),
        *(334, 260, 334, 584),
    ),
    (
        *(278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, *(556,) * 10, 333, 333),
        *(584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667),
        *(778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333, 556, 611, 556, 611, 556),
        *(333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556, 333, 611, 556, 778, 556, 556, 500),
        *(389, 280, 389, 584),
    ),
)
"""Widths of the characters 32 to 126 in thousandths of the font size, for each font."""
_ROUND: Final = 0.5523
"""Distance of the control points of a quarter circle, as a share of the radius."""


def svg_as_pdf(svg: str) -> bytes:
    """Return a stand-alone figure as a PDF with one page of its size."""
    root = fromstring(svg)
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    rules = _parse_styles("".join(element.text or "" for element in root.iter() if _tag(element) == "style"))
    opacities: list[str] = ["1"]
    # PDF counts y upward from the lower edge.
    commands = [f"1 0 0 -1 {0 - left:g} {top + height:g} cm"]
    for element in root:
        commands += _draw(element, _find_style(element, rules), opacities)
    states = " ".join(f"/G{number} << /ca {value} /CA {value} >>" for number, value in enumerate(opacities))
    fonts = " ".join(f"/F{number} {number + 5} 0 R" for number in range(len(_FONTS)))
    content = "\n".join(commands).encode("cp1252", "replace")
    return _write_objects(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            (
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width:g} {height:g}] /Contents 4 0 R "
                f"/Resources << /Font << {fonts} >> /ExtGState << {states} >> >> >>"
            ).encode(),
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content),
            *(
                f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>".encode()
                for font in _FONTS
            ),
        ]
    )


def _write_objects(objects: Sequence[bytes]) -> bytes:
    """Return a PDF file with these objects. The first is the catalog."""
    data, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    end = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
    return bytes(data) + f"xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _parse_styles(text: str) -> Mapping[str, Style]:
    rules: dict[str, Style] = {}
    for selectors, body in re.findall(r"([^{}]+)\{([^}]*)\}", text):
        properties = dict(entry.split(":", 1) for entry in body.split(";") if entry)
        for selector in selectors.split(","):
            rules.setdefault(selector, {}).update(properties)
    return rules


def _find_style(element: Element, rules: Mapping[str, Style]) -> Style:
    """Return the properties of an element: those of its kind, then those of its classes in the order of the rules."""
    selectors = {_tag(element), *(f".{name}" for name in element.get("class", "").split())}
    style: Style = {}
    for selector, properties in rules.items():
        if selector in selectors:
            style |= properties
    if dashes := element.get("stroke-dasharray"):
        style["stroke-dasharray"] = dashes
    return {name: style["color"] if value == "currentColor" else value for name, value in style.items()}


def _draw(element: Element, style: Style, opacities: list[str]) -> Iterator[str]:
    kind = _tag(element)
    if kind not in ("text", "path", "rect", "circle"):
        return
    opacity = style.get("opacity", "1")
    if opacity not in opacities:
        opacities.append(opacity)
    yield f"q /G{opacities.index(opacity)} gs"
    fill, stroke = style.get("fill", "#000000"), style.get("stroke", "none")
    if fill != "none":
        yield f"{_color(fill)} rg"
    if stroke != "none":
        dashes = style.get("stroke-dasharray", "")
        caps = 1 if style.get("stroke-linecap") == "round" else 0
        yield f"{_color(stroke)} RG {style.get('stroke-width', '1')} w {caps} J 1 j [{dashes}] 0 d"
    if kind == "text":
        yield _draw_text(element, style)
    else:
        yield from _outline(kind, element)
        yield {(True, True): "B", (True, False): "f", (False, True): "S"}.get((fill != "none", stroke != "none"), "n")
    yield "Q"


def _color(text: str) -> str:
    digits = text[1:] if len(text) == 7 else "".join(2 * digit for digit in text[1:])
    return " ".join(f"{int(digits[index : index + 2], 16) / 255:.3f}" for index in (0, 2, 4))


def _outline(kind: str, element: Element) -> Iterator[str]:
    """Yield the path of an element."""
    if kind == "rect":
        yield " ".join(element.get(name, "0") for name in ("x", "y", "width", "height")) + " re"
    elif kind == "circle":
        x, y, radius = (float(element.get(name, "0")) for name in ("cx", "cy", "r"))
        near = _ROUND * radius
        yield f"{x + radius:.2f} {y:.2f} m"
        for a, b in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            points = (
                *(x + a * radius - b * near, y + b * radius + a * near),
                *(x - b * radius + a * near, y + a * radius + b * near),
                *(x - b * radius, y + a * radius),
            )
            yield " ".join(f"{number:.2f}" for number in points) + " c"
    else:
        yield from _path(element.get("d", ""))


def _path(text: str) -> Iterator[str]:
    x = y = "0"
    for command, numbers in re.findall(r"([MLHVZ])([^MLHVZ]*)", text):
        match command:
            case "M" | "L":
                x, y = numbers.split()
            case "H":
                x = numbers.strip()
            case "V":
                y = numbers.strip()
        yield "h" if command == "Z" else f"{x} {y} {'m' if command == 'M' else 'l'}"


def _draw_text(element: Element, style: Style) -> str:
    words = (element.text or "").replace("↑ ", "")  # no standard font has arrows
    size = float(style.get("font-size", "12px").removesuffix("px"))
    font = 1 if style.get("font-weight") == "600" else 0
    codes = words.encode("cp1252", "replace")
    widths = _WIDTHS[font]
    length = sum(widths[code - 32] if 32 <= code < 127 else 556 for code in codes) * size / 1000
    x = float(element.get("x", "0")) - length * {"middle": 0.5, "end": 1.0}.get(element.get("text-anchor", ""), 0.0)
    escaped = re.sub(r"([\\()])", r"\\\1", codes.decode("cp1252", "replace"))
    return f"BT /F{font} {size:g} Tf 1 0 0 -1 {x:.2f} {element.get('y')} Tm ({escaped}) Tj ET"
