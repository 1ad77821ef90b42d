"""The files of the page: complete, self-contained, and free of markup injection."""

import re

from moorage.insight.page.paths import POLICY, assets

FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc")


def texts() -> dict[str, str]:
    return {name: content.decode() for name, (content, _) in assets().items()}


def test_every_imported_module_exists() -> None:
    for name, text in texts().items():
        if name.endswith(".js"):
            missing = [module for module in re.findall(r'from "\./([^"]+)"', text) if module not in assets()]
            assert missing == [], name


def test_data_is_never_inserted_as_markup() -> None:
    violations = {
        (name, word) for name, text in texts().items() if name.endswith(".js") for word in FORBIDDEN if word in text
    }
    assert violations == set()


def test_page_requests_no_external_addresses() -> None:
    for name, text in texts().items():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        assert "url(" not in text or name.endswith(".js"), name


def test_page_has_no_inline_code_or_style() -> None:
    page = texts()["index.html"]
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    assert "unsafe" not in POLICY


def test_files_have_short_lines() -> None:
    assert {name: len(text.splitlines()) for name, text in texts().items() if len(text.splitlines()) > 400} == {}
