"""Bytes into requests and responses: their contents, permitted positions, and limits."""

import gc
import weakref
from collections import Counter, deque
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.http.messages import HttpRequest, HttpService, Reply, Response
from moorage.kube.http.parsing import (
    MAX_HEAD,
    MAX_HEADERS,
    MAX_INTERIM,
    MAX_RECEIVED,
    MalformedMessage,
    ReceiveBudget,
    RequestParser,
    ResponseParser,
)

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


def refuse(status: int, message: str) -> Reply:
    return Reply(status, message.encode())


class EagerParser(RequestParser):
    """Parses all data immediately."""

    def feed(self, data: bytes) -> None:
        super().feed(data)
        complete = list(self.requests)
        while self.has_unread and self.refusal is None and self.unreviewed is None:
            self.requests.clear()
            self.advance()
            complete += self.requests
        self.requests = deque(complete)


def parser(max_body: int = 1000) -> RequestParser:
    return EagerParser(HttpService(lambda request: Reply(200, request.body), refuse, lambda _: max_body))


TRAILERS = (b"Authorization: Bearer t", b"X-Remote-Group: system:masters", b"Host: elsewhere")


@pytest.mark.parametrize("trailer", TRAILERS)
def test_trailers_are_never_headers(trailer: bytes) -> None:
    http_parser = parser()
    http_parser.feed(CHUNKED + b"1\r\na\r\n0\r\n" + trailer + b"\r\n\r\nGET /next HTTP/1.1\r\n\r\n")
    (request, _), (following, _) = http_parser.requests
    assert request.all_headers == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
    assert (request.body, following.path, following.all_headers) == (b"a", "/next", [])


def test_headers_are_counted_even_if_they_arrive_together() -> None:
    http_parser = parser()
    http_parser.feed(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * MAX_HEADERS + b"\r\n")
    assert http_parser.refusal is not None
    assert http_parser.refusal.status == 431
    assert not http_parser.requests


def test_duplicate_host_header_is_rejected() -> None:
    http_parser = parser()
    http_parser.feed(b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n")
    assert http_parser.refusal is not None
    assert (http_parser.refusal.status, http_parser.refusal.body) == (400, b"too many Host headers")


def endless_head() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\n"
    while True:
        yield b"A: " + b"x" * 1000 + b"\r\n"


def endless_target() -> Iterator[bytes]:
    yield b"GET /"
    while True:
        yield b"x" * 1000


def many_headers() -> Iterator[bytes]:
    yield b"GET / HTTP/1.1\r\n"
    while True:
        yield b"a:\r\n" * 10


def endless_trailers() -> Iterator[bytes]:
    yield CHUNKED + b"1\r\na\r\n0\r\n"
    while True:
        yield b"A: " + b"x" * 1000 + b"\r\n"


def endless_trailer() -> Iterator[bytes]:
    yield CHUNKED + b"0\r\nA: "
    while True:
        yield b"x" * 1000


def endless_extension() -> Iterator[bytes]:
    yield CHUNKED + b"1;"
    while True:
        yield b"x" * 1000


def tiny_chunks() -> Iterator[bytes]:
    yield CHUNKED
    while True:
        yield b"2\r\nab\r\n" * 10


def big_chunks() -> Iterator[bytes]:
    yield CHUNKED
    while True:
        yield b"3e8\r\n" + b"x" * 1000 + b"\r\n"


ENDLESS = {
    "headers": (endless_head, 431),
    "an address": (endless_target, 431),
    "tiny headers": (many_headers, 431),
    "trailers": (endless_trailers, 400),
    "one trailer": (endless_trailer, 400),
    "an extension of a chunk": (endless_extension, 400),
    "tiny chunks": (tiny_chunks, 413),
    "big chunks": (big_chunks, 413),
}


@pytest.mark.parametrize(("pieces", "status"), ENDLESS.values(), ids=ENDLESS)
def test_endless_input_is_rejected_after_a_bounded_number_of_bytes(pieces: object, status: int) -> None:
    assert callable(pieces)
    http_parser, sent = parser(), 0
    for piece in pieces():
        http_parser.feed(piece)
        sent += len(piece)
        if http_parser.refusal is not None:
            break
        assert sent < 3 * MAX_HEAD
    assert http_parser.refusal is not None
    assert http_parser.refusal.status == status
    assert not http_parser.requests


def test_a_body_in_many_small_chunks_is_one_run_of_bytes() -> None:
    http_parser = parser(max_body=10_000)
    http_parser.feed(CHUNKED)
    for _ in range(1000):
        http_parser.feed(b"2\r\nab\r\n")
    assert not any(isinstance(value, list) and len(value) > 100 for value in vars(http_parser).values())
    http_parser.feed(b"0\r\n\r\n")
    assert http_parser.requests[0][0].body == b"ab" * 1000


def test_maximum_number_of_headers() -> None:
    http_parser = parser()
    http_parser.feed(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * MAX_HEADERS + b"\r\n")
    assert len(http_parser.requests[0][0].all_headers) == MAX_HEADERS


def test_body_of_a_rejected_request_is_not_read() -> None:
    heads: list[HttpRequest] = []

    def check(head: HttpRequest) -> int | Reply:
        heads.append(head)
        return 1000 if head.header(b"authorization") == "Bearer t" else Reply(401, b"no")

    service = HttpService(lambda request: Reply(200, request.body), refuse, check)
    anonymous = EagerParser(service)
    anonymous.feed(b"POST /a HTTP/1.1\r\nContent-Length: 999\r\nExpect: 100-continue\r\n\r\n")
    assert anonymous.refusal == Reply(401, b"no")
    assert (heads[0].method, heads[0].path, heads[0].body) == ("POST", "/a", b"")
    anonymous = EagerParser(service)
    anonymous.feed(CHUNKED + b"1\r\na\r\n0\r\nAuthorization: Bearer t\r\n\r\n")
    assert (anonymous.refusal, len(anonymous.requests)) == (Reply(401, b"no"), 0), "a trailer does not authenticate"
    authenticated = EagerParser(service)
    authenticated.feed(b"POST / HTTP/1.1\r\nAuthorization: Bearer t\r\nContent-Length: 1\r\n\r\na")
    assert authenticated.requests[0][0].body == b"a"
    count = len(heads)
    bodiless = EagerParser(service)
    bodiless.feed(b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    assert (len(bodiless.requests), len(heads)) == (2, count), "only requests with a body are checked"


async def allow(_head: HttpRequest) -> Reply | None:
    return None


def test_body_waits_for_the_review_of_its_head() -> None:
    service = HttpService(lambda request: Reply(200, request.body), refuse, lambda _: 1 << 20, allow)
    http_parser = RequestParser(service)
    http_parser.feed(b"POST /a HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
    http_parser.advance()
    assert http_parser.unreviewed is not None
    assert http_parser.has_unread
    http_parser.advance()
    assert not http_parser.requests, "it waits"
    http_parser.reviewed(None)
    http_parser.advance()
    assert len(http_parser.requests[0][0].body) == 100_000
    http_parser = RequestParser(service)
    http_parser.feed(b"POST /a HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000)
    http_parser.advance()
    http_parser.reviewed(Reply(403, b"no"))
    http_parser.advance()
    assert (http_parser.refusal, len(http_parser.requests)) == (Reply(403, b"no"), 0)


def test_few_pipelined_requests_are_parsed_together() -> None:
    http_parser = RequestParser(HttpService(lambda request: Reply(200, request.body), refuse, lambda _: 0))
    http_parser.feed(b"GET / HTTP/1.1\r\n\r\n" * 3000)
    total = 0
    while http_parser.has_unread:
        http_parser.advance()
        assert 0 < len(http_parser.requests) < 60
        total += len(http_parser.requests)
        http_parser.requests.clear()
    assert total == 3000


def test_incomplete_bodies_of_all_connections_have_a_limit() -> None:
    service = HttpService(lambda request: Reply(200, request.body), refuse, lambda _: MAX_RECEIVED)
    budget, nearly_half = ReceiveBudget(), MAX_RECEIVED // 2 - 2000
    parsers = [RequestParser(service, budget=budget) for _ in range(3)]
    for http_parser in parsers:
        http_parser.feed(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % MAX_RECEIVED + b"x" * nearly_half)
        http_parser.advance()
    assert [None if one.refusal is None else one.refusal.status for one in parsers] == [None, None, 503]
    for http_parser in parsers:
        http_parser.close()
    assert budget.used == 0


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nA: " + b"x" * 120_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 900, b"GET /" + b"x" * 120_000],
    ids=["one header", "many headers", "a target"],
)
def test_incomplete_heads_of_all_connections_have_a_limit(data: bytes) -> None:
    service = HttpService(lambda request: Reply(200, request.body), refuse, lambda _: 0)
    budget = ReceiveBudget()
    parsers = [RequestParser(service, budget=budget) for _ in range(1000)]
    for http_parser in parsers:
        for start in range(0, len(data), 50_000):
            http_parser.feed(data[start : start + 50_000])
            http_parser.advance()
    statuses = Counter(None if one.refusal is None else one.refusal.status for one in parsers)
    assert statuses[503] > 300
    assert statuses[None] > 100
    assert budget.used <= MAX_RECEIVED + 2 * MAX_HEAD
    for http_parser in parsers:
        http_parser.close()
    assert budget.used == 0


def test_complete_requests_are_not_treated_as_incomplete() -> None:
    service = HttpService(lambda request: Reply(200, request.body), refuse, lambda _: 100)
    budget = ReceiveBudget()
    http_parser = RequestParser(service, budget=budget)
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc") * 3:
        http_parser.feed(request)
        assert budget.used == len(request)
        http_parser.advance()
        http_parser.requests.clear()
        assert budget.used == 0


REQUESTS = (
    b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PUT /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\nT: t\r\n\r\n",
)


@given(st.lists(st.sampled_from(REQUESTS), max_size=4), st.lists(st.integers(1, 40), min_size=1))
def test_requests_are_parsed_from_any_chunks(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    uncut, cut = parser(), parser()
    uncut.feed(data)
    position = 0
    while position < len(data):
        size = cuts[position % len(cuts)]
        cut.feed(data[position : position + size])
        position += size
    results = [
        [(r.method, r.path, r.all_headers, r.body, keeps) for r, keeps in http_parser.requests]
        for http_parser in (uncut, cut)
    ]
    assert results[0] == results[1]
    assert len(results[0]) == len(requests)


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    http_parser = parser()
    http_parser.feed(data)
    assert http_parser.refusal is None or 400 <= http_parser.refusal.status < 500


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BUSY = b"HTTP/1.1 409 Conflict\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nRetry-After: 99\r\n\r\n"

RESPONSES = {
    "a plain one": (OK, Response(200, b"ok")),
    "a rejection": (BUSY, Response(409, b"no", "3")),
    "one after 100 Continue": (CONTINUE + BUSY, Response(409, b"no", "3")),
    "hints before it": (HINTS + CONTINUE + BUSY, Response(409, b"no", "3")),
    "in chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", Response(200, b"a")),
}


@pytest.mark.parametrize(("data", "want"), RESPONSES.values(), ids=RESPONSES)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_responses(data: bytes, want: Response, size: int) -> None:
    response_parser = ResponseParser()
    for _ in range(2):
        for position in range(0, len(data), size):
            assert not response_parser.is_complete
            response_parser.feed(data[position : position + size])
        assert response_parser.is_complete
        assert response_parser.take() == want
        assert response_parser.keeps_alive


def test_unsolicited_response_is_ignored() -> None:
    response_parser = ResponseParser()
    response_parser.feed(OK + BUSY + b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhal")
    assert response_parser.take() == Response(200, b"ok")
    assert not response_parser.keeps_alive


ENDINGS = {
    "neither length nor chunks": (b"HTTP/1.1 200 OK\r\n\r\nall of it", Response(200, b"all of it")),
    "of an older version": (b"HTTP/1.0 403 No\r\nRetry-After: 2\r\n\r\nnone", Response(403, b"none", "2")),
    "after an interim one": (CONTINUE + b"HTTP/1.1 200 OK\r\n\r\nx", Response(200, b"x")),
    "a length that is not reached": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None),
    "chunks without the last": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", None),
    "half a head": (b"HTTP/1.1 200 OK\r\n", None),
    "an interim one alone": (CONTINUE, None),
    "nothing": (b"", None),
}


@pytest.mark.parametrize(("data", "want"), ENDINGS.values(), ids=ENDINGS)
def test_a_response_may_end_with_its_connection(data: bytes, want: Response | None) -> None:
    response_parser = ResponseParser()
    response_parser.feed(data)
    assert not response_parser.is_complete
    assert response_parser.end_with_connection() == (want is not None)
    assert want is None or response_parser.take() == want


MALFORMED = {
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "an upgrade": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "a head without end": b"HTTP/1.1 200 OK\r\nA: " + b"x" * (MAX_HEAD + 1),
    "interim responses without end": CONTINUE * (MAX_INTERIM + 1),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_malformed_response(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        ResponseParser().feed(data)


@pytest.mark.parametrize("make", [parser, ResponseParser])
def test_closed_parser_is_freed_immediately(make: type[ResponseParser]) -> None:
    gc.disable()
    try:
        instance = make()
        reference = weakref.ref(instance)
        instance.feed(b"GET / HTTP/1.1\r\n" if make is parser else b"HTTP/1.1 200 OK\r\n")
        instance.close()
        del instance
        assert reference() is None
    finally:
        gc.enable()


def test_status_below_100_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        ResponseParser().feed(b"HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n")
