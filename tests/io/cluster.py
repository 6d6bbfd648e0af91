"""A throw-away cluster of PostgreSQL on the loopback address."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

_USERS = ("postgres", "nobody")


def binaries():
    """Where initdb and pg_ctl are, or None."""
    found = [*glob.glob("/usr/lib/postgresql/*/bin"), "/usr/local/bin"]
    path = os.pathsep.join([*found[::-1], os.environ.get("PATH", "")])
    tool = shutil.which("initdb", path=path)
    return None if tool is None else Path(tool).resolve().parent


def _user():
    """Whom to run as: PostgreSQL does not start as root."""
    if os.geteuid() != 0:
        return {}
    known = {one.pw_name: one for one in pwd.getpwall()}
    owner = next(known[name] for name in _USERS if name in known)
    return {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def cluster():
    """The text that connects to a cluster, which ends with the context."""
    tools, user, port = binaries(), _user(), _free_port()
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        if user:
            os.chown(folder, user["user"], user["group"])
        data = f"{folder}/data"

        def run(*words):
            subprocess.run(
                words,
                check=True,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **user,
            )

        run(tools / "initdb", "-D", data, "-A", "trust", "-U", "skdp", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -c fsync=off"
        options += f" -c unix_socket_directories={folder}"
        log = f"{folder}/log"
        run(tools / "pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start")
        try:
            yield f"host=127.0.0.1 port={port} user=skdp dbname=postgres"
        finally:
            run(tools / "pg_ctl", "-D", data, "-m", "immediate", "stop")


@pytest.fixture(scope="session")
def postgres():
    """The text that connects to a cluster; skips where there is no PostgreSQL."""
    pytest.importorskip("psycopg", reason="PostgreSQL: psycopg is not installed")
    if binaries() is None:
        pytest.skip("PostgreSQL: initdb was not found")
    with cluster() as text:
        yield text
