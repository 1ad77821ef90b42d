"""Named formats: results of the library of kube-apiserver 1.37.1."""

import pytest

from moorage.scheduler.plugins.dynamic_resources.cel.formats import FORMATS, named, validate

VALID = {
    "dns1123Label": ("1a", "x" * 63),
    "dns1123Subdomain": ("a.b", "x" * 253),
    "dns1035Label": ("a-b",),
    "qualifiedName": ("a/B_c", "a.b/c", "A"),
    "dns1123LabelPrefix": ("a-", "a--", "ab--", "A-"),
    "dns1123SubdomainPrefix": ("a.b-", "mysubdomain.prefix.-"),
    "dns1035LabelPrefix": ("a-", "0-"),
    "labelValue": ("", "a_B"),
    "uri": ("/x", "http://a/b"),
    "uuid": ("123e4567-E89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
    "byte": ("aGVsbG8=",),
    "date": ("2021-01-01", "0000-02-29"),
    "datetime": ("2021-01-01T00:00:00Z", "2021-01-01t23:59:59.5+01:00", "2021-01-01T00:00:00ZTx"),
}
INVALID = {
    "dns1123Label": ("", "A", "a-", "x" * 64, "a\n"),
    "dns1123Subdomain": ("a..b", "x" * 254),
    "dns1035Label": ("1a", "a.b"),
    "qualifiedName": ("/a", "a/", "a/b/c"),
    "dns1123LabelPrefix": ("-", "é"),
    "dns1123SubdomainPrefix": ("a..-b",),
    "dns1035LabelPrefix": ("1b", "-"),
    "labelValue": ("-a", "x" * 64),
    "uri": ("../x", "http://[::1", ""),
    "uuid": ("123e4567",),
    "byte": ("", "aGVsbG8", "===="),
    "date": ("2021-02-30", "2021-1-1", "2021-01-01\n"),
    "datetime": ("2021-01-01T24:00:00Z", "2021-01-01T00:00:60Z", "2021-01-01T00:00:00"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_accept_and_reject_the_texts_of_upstream(name: str) -> None:
    (value,) = named(name)
    for text in VALID[name]:
        assert validate(value, text) == [], text
    for text in INVALID[name]:
        assert validate(value, text), text
