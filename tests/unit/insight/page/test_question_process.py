"""The child process that handles questions."""

import asyncio
from pathlib import Path

import pytest
import yaml
from tests.unit.insight.page.clusters import policy

from moorage.common.errors import InputError
from moorage.insight.explain.explain_events import make_explain_request
from moorage.insight.page import question_process
from moorage.insight.page.question_process import QuestionProcess


def test_unreadable_cluster_is_reported_and_a_dead_process_is_restarted(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {}}
    content = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(content))

    async def go() -> None:
        asking = QuestionProcess(make_explain_request(policy(), str(kubeconfig), ()))
        with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
            await asking.ask("pod", {"pod": "shop/web"})
        assert asking._process is not None
        await asking._process.close()
        with pytest.raises(InputError, match=r"127\.0\.0\.1:1"):
            await asking.ask("pod", {"pod": "shop/web"})
        await asking.stop()

    asyncio.run(go())


def test_process_that_ends_is_not_restarted_for_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_process, "WORKER", "moorage.no_such_module")

    async def go() -> None:
        asking = QuestionProcess(make_explain_request(policy(), "", ()))
        with pytest.raises(InputError, match="see the log"):
            await asking.ask("pod", {})
        with pytest.raises(InputError, match="try again in 1 s"):
            await asking.ask("pod", {})
        assert asking._process is None

    asyncio.run(go())
