"""A configuration in logs and errors: keys and passwords stay out of both."""

import pytest

from moorage.common.errors import ConfigError
from moorage.scheduler.config import completed_view, load_config, to_yaml, without_secrets

SECRET = "c2VjcmV0LXdvcmQ="
TEXT = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://me:pass-word@extender.example:8443/scheduler
  filterVerb: filter
  tlsConfig: {keyData: %s, certData: Y2VydA==, serverName: here}
- urlPrefix: http://other.example
  filterVerb: filter
"""


def test_logged_configuration_has_no_keys_and_no_passwords() -> None:
    config = load_config(TEXT % SECRET)
    view = completed_view(config)
    assert SECRET in to_yaml(view)
    logged = to_yaml(without_secrets(view))
    assert SECRET not in logged
    assert "pass-word" not in logged
    assert "https://extender.example:8443/scheduler" in logged
    assert "serverName: here" in logged
    assert SECRET in to_yaml(view), "what --write-config-to writes stays complete"
    assert SECRET not in repr(config)
    assert "secret-word" not in repr(config)


def test_key_with_invalid_base64_is_not_shown() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(TEXT % "not-base64-but-secret!")
    assert "expected base64 text" in str(raised.value)
    assert "secret" not in str(raised.value)
