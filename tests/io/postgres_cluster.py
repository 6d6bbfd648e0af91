"""A throw-away PostgreSQL server on the loopback address, one for each process.

`uri()` starts it when it is first asked for; it ends with the process, whatever ends
that. Without the server's programs the tests that ask are skipped, by name.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

_PLACES = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"]
_PATIENCE = 60  # seconds in which it starts or ends, or never
_DEATH_SIGNAL = 1  # of prctl


def uri(**settings):
    """Where to connect to, with settings of the session; skips without a server."""
    pytest.importorskip("adbc_driver_postgresql", reason="needs ADBC for PostgreSQL")
    port = _started()
    if port is None:
        pytest.skip("needs PostgreSQL: no initdb on PATH or in /usr/lib/postgresql")
    options = "".join(f"%20-c%20{name}%3D{value}" for name, value in settings.items())
    return f"postgresql://postgres@127.0.0.1:{port}/postgres?options={options}"


def programs():
    """The folder with initdb and postgres; None if there is none."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += [Path(name) for place in _PLACES for name in sorted(glob.glob(place))]
    for folder in reversed(folders):
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    return None


@functools.cache
def _started():
    """The port of the server of this process; None where there cannot be one."""
    folder = programs()
    if folder is None:
        return None
    home = tempfile.mkdtemp(prefix="skdp-postgres-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    who = _unprivileged()
    if who:
        os.chown(home, pwd.getpwnam(who["user"]).pw_uid, -1)
    initdb = [folder / "initdb", "-D", f"{home}/data", "-U", "postgres", "-A", "trust"]
    initdb += ["--locale=C", "--encoding=UTF8", "--no-sync", "--no-instructions"]
    subprocess.run(initdb, check=True, cwd=home, stdout=subprocess.DEVNULL, **who)
    port = _free_port()
    server = [folder / "postgres", "-D", f"{home}/data", "-p", str(port), "-F"]
    server += ["-h", "127.0.0.1", "-k", "", "-c", "max_worker_processes=8"]
    with open(f"{home}/log", "wb") as log:
        process = subprocess.Popen(
            server, cwd=home, stdout=log, stderr=log, preexec_fn=_ends_with_us, **who
        )
    atexit.register(_stopped, process)
    _wait(process, port)
    return port


def _unprivileged():
    """Whom the server runs as: it refuses to be root."""
    if os.getuid() != 0:
        return {}
    for user in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            group = pwd.getpwnam(user).pw_gid
            return {"user": user, "group": group, "extra_groups": []}
    pytest.skip("needs PostgreSQL: there is no user but root to run it")


def _ends_with_us():
    """Even if this process is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGINT)


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _wait(process, port):
    """Until it takes connections."""
    from adbc_driver_postgresql import dbapi

    start = time.monotonic()
    while True:
        try:
            dbapi.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
            return
        except dbapi.Error:
            if process.poll() is not None or time.monotonic() - start > _PATIENCE:
                raise
            time.sleep(0.05)


def _stopped(process):
    process.send_signal(signal.SIGINT)  # ends sessions and then itself
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
