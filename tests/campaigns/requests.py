"""Requests to the viewer by raw sockets: valid ones, changed in some place.

A request must be answered (2xx), refused (4xx), or its connection closed; the server goes on.
"""

import functools
import json
import pathlib
import random
import socket
import urllib.parse

from viewer import players

from campaigns.damage import STRANGE, damage_bytes, damage_json
from campaigns.tally import Tally
from wmg.tools.errors import BadInput

MESSAGES = [
    {"do": "show"},
    {"do": "begin", "choice": "seed", "value": 3},
    {"do": "begin", "choice": "again", "value": None},
    {"do": "act", "time": 0, "action": 0, "off": [[]]},
    {"do": "act", "time": 0, "action": None, "off": [[]]},
    {"do": "think", "track": 0, "time": 0, "off": []},
    {"do": "think", "track": 0, "time": 0, "off": [], "turn": 1},
]
PATHS = ("", "message", "index.html", "../", "%2e%2e/", "app.js", "\x00", "a" * 20_000)
METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "BREW", "")
SECONDS = 10.0


def campaign(cases: int, seed: int, folder: pathlib.Path) -> dict[str, Tally]:
    """Send random requests to a server that shows one agent."""
    draw, tallies = random.Random(seed), {kind: Tally() for kind in ("messages", "raw requests")}
    with players.serving(players.random()) as (address, _):
        place = urllib.parse.urlsplit(address)
        for case in range(cases):
            kind = draw.choice(list(tallies))
            complete = kind == "messages"
            sent = message(draw, place) if complete else raw(draw, place)
            do = functools.partial(ask, place, sent, complete)
            tallies[kind].attempt(f"{kind} {case} {sent[:120]!r}", do)
        still = functools.partial(ask, place, request(place, MESSAGES[0]), True)
        tallies["messages"].attempt("a last one", still)
    return tallies


def request(place: urllib.parse.SplitResult, body: object) -> bytes:
    """A well-formed message."""
    return post(place, json.dumps(body).encode())


def post(place: urllib.parse.SplitResult, body: bytes) -> bytes:
    head = f"POST {place.path}message HTTP/1.1\r\nHost: {place.netloc}\r\n"
    head += f"Origin: http://{place.netloc}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def message(draw: random.Random, place: urllib.parse.SplitResult) -> bytes:
    """A request with the right address whose message is odd."""
    body = json.dumps(draw.choice(MESSAGES)).encode()
    for _ in range(draw.choice((0, 1, 1, 2))):
        body = damage_json(draw, body)
    if draw.random() < 0.2:
        body = draw.choice((damage_bytes(draw, body), json.dumps(draw.choice(STRANGE)).encode()))
    return post(place, body)


def raw(draw: random.Random, place: urllib.parse.SplitResult) -> bytes:
    """A request whose method, path, headers or bytes are odd."""
    sent = request(place, draw.choice(MESSAGES))
    if draw.random() < 0.5:
        method, path = draw.choice(METHODS), place.path + draw.choice(PATHS)
        sent = f"{method} {path} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode()
    for _ in range(draw.choice((0, 1, 1, 3))):
        sent = damage_bytes(draw, sent)
    return sent


def ask(place: urllib.parse.SplitResult, sent: bytes, complete: bool) -> str | None:
    """What is wrong with the answer, if anything. Raises `BadInput` if the request is refused."""
    answer = b""
    try:
        with socket.create_connection((place.hostname, place.port), timeout=SECONDS) as connection:
            connection.sendall(sent)
            if not complete:  # nothing more will come
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                answer += part
    except ConnectionError:  # closed before all was sent
        pass
    if not answer:
        raise BadInput("the connection is closed")
    status = answer.split(b" ", 2)[1]
    if status.startswith(b"4"):
        raise BadInput(f"refused with {status.decode()}")
    return None if status.startswith(b"2") else f"answered with {status!r}"
