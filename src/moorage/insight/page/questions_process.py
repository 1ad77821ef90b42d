"""The process that answers the page's questions about a live cluster: messages on standard input and output."""

import os
import sys
from time import monotonic
from typing import Final, TypeVar

import msgspec
import structlog

from moorage.common.errors import MoorageError
from moorage.insight.explain.in_scheduler import ExplainRequest
from moorage.insight.explain.process import open_session
from moorage.insight.page.answers import answer
from moorage.insight.page.beside import LENGTH, PageAnswer, PageQuestion, framed
from moorage.insight.whatif.session import Session

MAX_AGE_SECONDS: Final = 15.0
"""What was read so long ago is read anew, unless a search for help goes on."""
PATIENT: Final = ("helps",)
"""Questions that are asked in a row, and may be answered from what is a minute old."""
MAX_PATIENT_SECONDS: Final = 60.0
T = TypeVar("T", bound=msgspec.Struct)

log = structlog.get_logger(__name__)


def main() -> int:
    """Answer until there are no more questions."""
    # Plugins may print, and logs go to standard output unless told otherwise: neither must get between the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = _read(ExplainRequest)
    session, read_at = None, 0.0
    while request is not None and (question := _read(PageQuestion)) is not None:
        most = MAX_PATIENT_SECONDS if question.question in PATIENT else MAX_AGE_SECONDS
        try:
            if session is None or monotonic() - read_at > most:
                fresh = open_session(request)
                if session is not None:
                    session.close()
                session, read_at = fresh, monotonic()
            said = _answered(session, question)
        except MoorageError as error:
            said = PageAnswer(problem=str(error))
        answers.write(framed(said))
        answers.flush()
    return 0


def _answered(session: Session, question: PageQuestion) -> PageAnswer:
    try:
        return PageAnswer(answer(session, question.question, question.asked))
    except MoorageError:
        raise
    except Exception:  # one question must not end the process
        log.exception("a question of the page could not be answered", question=question.question)
        return PageAnswer(problem="the question could not be answered; the log says why")


def _read(kind: type[T]) -> T | None:
    source = sys.stdin.buffer
    head = source.read(LENGTH)
    if len(head) < LENGTH:
        return None
    return msgspec.json.decode(source.read(int.from_bytes(head, "big")), type=kind)


if __name__ == "__main__":
    sys.exit(main())
