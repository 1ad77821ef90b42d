"""Certificates for tests that talk TLS."""

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key, good for anything."""
    directory = tmp_path_factory.mktemp("ca")
    subject = ["-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    keys = ["-keyout", directory / "key.pem", "-out", directory / "cert.pem"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run([*command, *keys, *subject], check=True, capture_output=True)
    return directory
