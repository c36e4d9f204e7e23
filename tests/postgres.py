"""A PostgreSQL server of the tests' own, where it is installed."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess

import pytest

PASSWORD = "right"


def programs():
    """The folder of the server's programs; None if it is not installed."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = shutil.which("initdb")
    return found[-1].parent if found else path and pathlib.Path(path).parent


class Server:
    """A server in a folder, which can be stopped and started. It refuses to be root."""

    def __init__(self, folder):
        self.folder, self.user = folder, "postgres" if os.getuid() == 0 else None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        folder.mkdir()
        (folder / "password").write_text(PASSWORD)
        if self.user:
            for path in (folder, folder / "password"):
                shutil.chown(path, self.user)
        access = ["-A", "scram-sha-256", "-U", "wmg", "--pwfile", folder / "password"]
        self._run("initdb", "-D", folder / "data", *access, "--no-sync")

    def _run(self, program, *args):
        command = [str(programs() / program), *map(str, args)]
        subprocess.run(
            command, check=True, user=self.user, cwd=self.folder, stdout=subprocess.DEVNULL
        )

    def start(self):
        where = f"-k {self.folder} -p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-l", log, "-o", where, "start")

    def stop(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def url(self, password=PASSWORD, database="postgres"):
        return f"postgresql://wmg:{password}@127.0.0.1:{self.port}/{database}"


@contextlib.contextmanager
def running():
    """A server that is up, or the test is skipped."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed")
    pytest.importorskip("psycopg")
    # Not in pytest's folder, into which only the user who runs the tests may look.
    folder = pathlib.Path(f"/tmp/wmg-postgres-{os.getpid()}")
    try:
        try:
            server = Server(folder)
            server.start()
        except (LookupError, OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"PostgreSQL does not start here: {error}")
        yield server
        with contextlib.suppress(subprocess.CalledProcessError):
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
