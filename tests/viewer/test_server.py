"""The server answers one page with the right address, and nobody and nothing else."""

import http.client
import json
import socket
import time
import urllib.parse

import pytest
from viewer import players

from wmg.tools.errors import BadInput
from wmg.viewer import server
from wmg.viewer.page_files import page_files

FILES = page_files(players.random().scenery.drawing)
SHOW = b'{"do": "show"}'


@pytest.fixture(scope="module")
def address():
    with players.serving(players.random()) as (address, _):
        yield urllib.parse.urlsplit(address)


def ask(address, method="GET", path="", body=None, **headers):
    """Status, headers and text of an answer; a header that is None is left out."""
    if method == "POST":
        page = f"http://{address.netloc}"
        headers = {"Origin": page, "Content_Type": "application/json", **headers}
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        if body is not None and "Content_Length" not in headers:
            headers["Content_Length"] = str(len(body))
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name.replace("_", "-"), value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def get(address, path="", **headers):
    return ask(address, "GET", address.path + path, **headers)


def post(address, body=SHOW, **headers):
    return ask(address, "POST", address.path + "message", body, **headers)


def test_the_page_and_its_files_are_there(address):
    for name, text in FILES.items():
        status, headers, got = get(address, name)
        assert (status, got) == (200, text)
        assert headers["content-type"].startswith(server.KINDS[name.rpartition(".")[2]])
    assert get(address)[2] == FILES["index.html"]


def test_messages_are_answered(address):
    status, headers, text = post(address)
    assert status == 200 and headers["content-type"] == "application/json"
    assert json.loads(text)["title"] == "Pathfinding, 7 nodes"


def test_every_answer_forbids_what_the_page_does_not_need(address):
    for _, headers, _ in (get(address), post(address), get(address, "nothing")):
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "unsafe" not in policy and "*" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/message", "/app.js", "/wrong/", "/wrong/app.js", "//"])
def test_an_address_without_the_token_is_refused(address, path):
    assert ask(address, "GET", path)[0] == 403
    status, _, text = ask(address, "POST", path, SHOW)
    assert status in (403, 405) and "episodes" not in text


def test_half_a_token_is_refused(address):
    assert ask(address, "GET", address.path[:-3] + "/")[0] == 403
    assert ask(address, "POST", address.path[:-3] + "/message", SHOW)[0] == 403


@pytest.mark.parametrize(
    "origin", ["http://example.com", "null", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_other_origins_are_refused(address, origin):
    assert get(address, Origin=origin)[0] == 403
    assert post(address, Origin=origin)[0] == 403


def test_a_message_from_nowhere_is_refused(address):
    assert post(address, Origin=None)[0] == 403


def test_other_names_of_this_machine_are_refused(address):
    """A name that somebody else points to this machine would make his page the same origin."""
    name = f"evil.example:{address.port}"
    assert get(address, Host=name)[0] == 403
    assert post(address, Host=name, Origin=f"http://{name}")[0] == 403


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_what_a_form_of_another_site_could_send_is_refused(address, kind):
    assert post(address, Content_Type=kind)[0] == 415


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"[" * 10_000, b'{"do": NaN}', b'{"do": "show", "x": 1}', b"null"],
    ids=["empty", "half", "no text", "deep", "NaN", "more", "null"],
)
def test_malformed_messages_are_refused_in_one_sentence(address, body):
    status, _, text = post(address, body)
    assert status == 400
    (error,) = json.loads(text).values()
    assert "\n" not in error and "Traceback" not in error


def test_oversized_messages_are_refused(address):
    body = b'{"do": "show", "x": "' + b"x" * server.LARGEST_MESSAGE + b'"}'
    assert post(address, body)[0] == 413


def test_an_endless_message_is_cut_off(address):
    """One without a length, sent in chunks, is not read beyond the limit."""
    page = f"http://{address.netloc}"
    with socket.create_connection((address.hostname, address.port), timeout=20) as client:
        head = (
            f"POST {address.path}message HTTP/1.1\r\nHost: {address.netloc}\r\n"
            f"Origin: {page}\r\nContent-Type: application/json\r\n"
            "Transfer-Encoding: chunked\r\n\r\n"
        )
        client.sendall(head.encode())
        for _ in range(server.LARGEST_MESSAGE // 1000 + 2):
            client.sendall(b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "path",
    [
        "../session.py",
        "..%2fsession.py",
        "%2e%2e/%2e%2e/pyproject.toml",
        "....//session.py",
        "/etc/passwd",
        "scenes/../../session.py",
        "scenes/",
        "index.html%00.js",
        "app.js/",
        "\\..\\session.py",
    ],
)
def test_path_tricks_lead_nowhere(address, path):
    status, _, text = get(address, path)
    assert status in (403, 404)
    assert set(json.loads(text)) == {"error"}


def test_a_request_without_a_path_is_not_sent_elsewhere(address):
    assert ask(address, "POST", "?" + address.path + "message", SHOW)[0] == 404


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(address, method):
    assert ask(address, method, address.path + "message")[0] in (400, 403, 405)


def test_only_the_loopback_address_is_listened_on():
    with server.listening(server.LOOPBACK, 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_in_use_is_one_sentence():
    with server.listening(server.LOOPBACK, 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match=f"cannot listen on 127.0.0.1:{port}"):
            server.listening(server.LOOPBACK, port).__enter__()


@pytest.mark.parametrize("host", ["nonsense.invalid", "8.8.8.8", "::1", "a" * 70])
def test_where_the_host_is_wrong_no_other_port_is_advised(host):
    with pytest.raises(BadInput) as error:
        server.listening(host, 0).__enter__()
    assert str(error.value).startswith(f"cannot listen on {host}:0 (")
    assert str(error.value).endswith("): --host must be an IPv4 address or name of this machine")


def test_answers_on_a_connection_that_stays_open_are_sent_at_once(address):
    """And not held back until the client confirms what came before, which takes 40 ms."""
    page = {"Origin": f"http://{address.netloc}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    times = []
    for _ in range(8):
        began = time.perf_counter()
        connection.request("POST", address.path + "message", SHOW, page)
        assert connection.getresponse().read()
        times.append(time.perf_counter() - began)
    connection.close()
    assert min(times[1:]) < 0.03


def test_without_a_browser_the_address_is_to_be_opened_by_hand(monkeypatch, capsys):
    def missing():
        raise server.webbrowser.Error("could not locate runnable browser")

    monkeypatch.setattr(server.webbrowser, "get", missing)
    server.open_browser("http://127.0.0.1:1/token/")
    out = capsys.readouterr().out
    assert out == "no browser was found here: open the address above yourself\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("pathfinding-wmg", 0.1),
        ("babyai-level4-wmg", 0.1),
        ("babyai-level5-wmg", 0.1),
        ("sokoban-wmg", 0.25),
    ],
)
def test_a_live_step_is_quick_after_the_first(name, most):
    """Over HTTP, median of an episode."""
    with players.serving(players.shipped(name)) as (place, behind):
        address, times = urllib.parse.urlsplit(place), []
        while not behind.tracks[0].over and len(times) < 40:
            message = {"do": "act", "time": len(times), "action": None, "off": [[]]}
            began = time.perf_counter()
            assert post(address, json.dumps(message).encode())[0] == 200
            times.append(time.perf_counter() - began)
    assert sorted(times[1:])[len(times) // 2 - 1] < most


@pytest.mark.parametrize("begun", ["nothing", "half a request", "half a message"])
def test_a_connection_that_sends_nothing_more_is_dropped(address, monkeypatch, begun):
    monkeypatch.setattr(server, "LONGEST_SILENCE", 0.3)
    head = f"POST {address.path}message HTTP/1.1\r\nHost: {address.netloc}\r\n"
    rest = f"Origin: http://{address.netloc}\r\nContent-Type: application/json\r\n"
    whole = f"{head}{rest}Content-Length: 100\r\n\r\n{{"
    sent = {"nothing": "", "half a request": head, "half a message": whole}[begun]
    with socket.create_connection((address.hostname, address.port), timeout=10) as client:
        client.sendall(sent.encode())
        assert b"200 OK" not in client.recv(1000)


def test_a_connection_that_waits_for_an_answer_is_kept(address, monkeypatch):
    def think(session, message):
        time.sleep(1.0)
        return {"after": "a while"}

    monkeypatch.setattr(server, "LONGEST_SILENCE", 0.2)
    monkeypatch.setattr(server.ViewerSession, "handle", think)
    status, _, text = post(address)
    assert status == 200 and json.loads(text) == {"after": "a while"}
