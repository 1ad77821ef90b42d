"""The child process that handles the page's questions about a live cluster."""

import sys
from time import monotonic
from typing import Final

import msgspec
import structlog

from moorage.common.child_process import ParentChannel, lower_priority
from moorage.common.errors import MoorageError
from moorage.insight.explain.explain_events import ExplainRequest
from moorage.insight.explain.explain_worker import open_session
from moorage.insight.page.question_handlers import answer
from moorage.insight.page.question_process import PageAnswer, PageQuestion

MAX_AGE_SECONDS: Final = 15.0
"""Older data is read again, except during a search for changes that help."""
SERIES: Final = ("helps",)
"""Questions of one search, which may use data of the last minute."""
MAX_SERIES_AGE_SECONDS: Final = 60.0

log = structlog.get_logger(__name__)


def main() -> int:
    """Handle questions until the parent closes the channel."""
    lower_priority()
    channel = ParentChannel()
    request = channel.receive(msgspec.msgpack.Decoder(ExplainRequest))
    questions = msgspec.msgpack.Decoder(PageQuestion)
    session, read_at = None, 0.0
    while request is not None and (question := channel.receive(questions)) is not None:
        max_age = MAX_SERIES_AGE_SECONDS if question.question in SERIES else MAX_AGE_SECONDS
        try:
            if session is None or monotonic() - read_at > max_age:
                fresh = open_session(request)
                if session is not None:
                    session.close()
                session, read_at = fresh, monotonic()
            reply = PageAnswer(answer(session, question.question, question.asked))
        except MoorageError as error:
            reply = PageAnswer(problem=str(error))
        except Exception:  # one question must not end the process
            log.exception("a question of the page failed", question=question.question)
            reply = PageAnswer(problem="the question failed; see the log")
        channel.send(reply)
    return 0


if __name__ == "__main__":
    sys.exit(main())
