"""The files of the page: complete, our own, and nothing in them that would make markup of what a cluster says."""

import re

from moorage.insight.page.paths import POLICY, assets

FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")


def texts() -> dict[str, str]:
    return {name: content.decode() for name, (content, _) in assets().items()}


def test_every_module_that_is_imported_is_there() -> None:
    for name, text in texts().items():
        if name.endswith(".js"):
            missing = [found for found in re.findall(r'from "\./([^"]+)"', text) if found not in assets()]
            assert missing == [], name


def test_nothing_becomes_markup() -> None:
    found = {
        (name, word) for name, text in texts().items() if name.endswith(".js") for word in FORBIDDEN if word in text
    }
    assert found == set()


def test_nobody_else_is_asked_for_anything() -> None:
    for name, text in texts().items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert "url(" not in text or name.endswith(".js"), name


def test_the_page_holds_no_inline_code_or_style() -> None:
    page = texts()["index.html"]
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    assert "unsafe" not in POLICY


def test_files_stay_readable() -> None:
    assert {name: len(text.splitlines()) for name, text in texts().items() if len(text.splitlines()) > 400} == {}
