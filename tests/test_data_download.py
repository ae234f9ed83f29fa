"""Downloads, from a server in this process: cuts, resumption, checksums, refusals."""

import hashlib
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from argand.errors import ArgandError
from argand.study.data import download as module
from argand.study.data.download import download
from argand.study.data.sources import Remote

CONTENT = bytes(range(256)) * 4000
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT under /file; what it does wrong is set on the server."""

    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        if self.path != "/file":
            return self.send_error(404)
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if not server.ranges:
            start = 0
        if start >= len(CONTENT):
            return self.send_error(416)
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut] if server.cut else body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(cut=None, ranges=True):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.cut, server.ranges, server.asked = cut, ranges, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_file_arrives_and_is_not_asked_for_again(tmp_path):
    seen = []
    with serving() as (server, address):
        remote = Remote((f"{address}/file",), "file", MD5, len(CONTENT))
        path = download(remote, tmp_path / "new", lambda done, total: seen.append((done, total)))
        assert path.read_bytes() == CONTENT
        download(remote, tmp_path / "new")
        assert server.asked == [None]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("ranges", [True, False], ids=["resumed", "the server can't resume"])
def test_a_cut_download_goes_on(tmp_path, ranges):
    with serving(cut=300_000, ranges=ranges) as (server, address):
        remote = Remote((f"{address}/file",), "file", MD5)
        with pytest.raises(ArgandError, match=r"broke off.*goes on from there"):
            download(remote, tmp_path)
        assert (tmp_path / "file.part").stat().st_size == 300_000
        assert not (tmp_path / "file").exists()
        server.cut = None
        assert download(remote, tmp_path).read_bytes() == CONTENT
        assert server.asked == [None, "bytes=300000-"]
    assert not (tmp_path / "file.part").exists()


def test_a_wrong_checksum_deletes_what_came(tmp_path):
    with (
        serving() as (_, address),
        pytest.raises(ArgandError, match=f"md5 {MD5}, not the published {'0' * 32}"),
    ):
        download(Remote((f"{address}/file",), "file", "0" * 32), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_is_found_by_its_checksum(tmp_path):
    (tmp_path / "file.part").write_bytes(b"x" * 1000)
    with serving() as (_, address):
        remote = Remote((f"{address}/file",), "file", MD5)
        with pytest.raises(ArgandError, match="md5"):
            download(remote, tmp_path)
        assert download(remote, tmp_path).read_bytes() == CONTENT


def test_a_part_longer_than_the_file(tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT + b"x")
    with serving() as (_, address), pytest.raises(ArgandError, match="md5"):
        download(Remote((f"{address}/file",), "file", MD5), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_whole_part_needs_no_network(tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert download(Remote(("http://127.0.0.1:9/file",), "file", MD5, len(CONTENT)), tmp_path).read_bytes() == CONTENT


def test_the_second_address_is_tried(tmp_path):
    with serving() as (_, address):
        remote = Remote((f"{address}/gone", f"{address}/file"), "file", MD5)
        assert download(remote, tmp_path).read_bytes() == CONTENT


def test_every_failure_is_told(tmp_path):
    with serving() as (_, address):
        remote = Remote((f"{address}/gone", "http://127.0.0.1:9/file"), "file", MD5)
        with pytest.raises(ArgandError, match=r"/gone answers 404 .*127.0.0.1:9/file can't be reached .*--from"):
            download(remote, tmp_path)
        with pytest.raises(ArgandError, match=r"offers 1024000 bytes, not the published 7"):
            download(Remote((f"{address}/file",), "file", MD5, 7), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_too_little_room_is_told_before_the_download(tmp_path):
    with serving() as (server, address):
        with pytest.raises(ArgandError, match=r"has \d+ MB left\. .* needs 1000000000000 MB"):
            download(Remote((f"{address}/file",), "file", MD5, 10**18), tmp_path)
        assert server.asked == []


def test_a_full_disk_keeps_the_part_and_says_so(tmp_path, monkeypatch):
    class Full:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, _):
            raise OSError(28, "No space left on device")

    path_type = type(tmp_path)
    original = path_type.open

    def opened(self, mode="r", *rest, **named):
        file = original(self, mode, *rest, **named)
        return Full(file) if self.name == "file.part" and "r" not in mode else file

    monkeypatch.setattr(module.Path, "open", opened)
    with serving() as (_, address), pytest.raises(ArgandError, match=r"No space left on device\. Make room"):
        download(Remote((f"{address}/file",), "file", MD5), tmp_path)
    assert not (tmp_path / "file").exists()
