"""Connections through TLS: nobody on the way reads sums, and only as planned."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
import time

import pytest

from skdp.exceptions import SourceError
from skdp.federated import _remote, _wire, coordinate
from tests.federated.parties import (
    PATIENCE,
    Running,
    changed,
    process,
    setting,
)

x509 = pytest.importorskip("cryptography.x509")


def certificate(folder, name="hub"):
    """Files of a certificate for the loopback address that vouches for itself."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    there = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([there]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.secret"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


def of_hub(paths):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*paths)
    return context


def of_party(paths):
    return ssl.create_default_context(cafile=str(paths[0]))


@pytest.fixture
def own(tmp_path):
    return setting(tmp_path, is_encrypted=True)


@pytest.fixture
def paths(tmp_path):
    return certificate(tmp_path)


def fitted(own, server, client, patience=PATIENCE):
    """Runs of the coordinator and of three parties."""
    hub = Running(lambda: coordinate(own.plan, own.hub, patience=patience, tls=server))
    parties = [
        Running(lambda i=i: own.serve(i, patience=patience, tls=client))
        for i in range(3)
    ]
    return [hub, *parties]


class OnTheWay(threading.Thread):
    """Passes bytes on to an address, and notes them."""

    def __init__(self, there):
        super().__init__(daemon=True)
        self._there, self.seen = there, bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self.start()

    def run(self):
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(self._there)
            except OSError:
                near.close()
                continue
            for one, other in ((near, far), (far, near)):
                threading.Thread(
                    target=self._pass_on, args=(one, other), daemon=True
                ).start()

    def _pass_on(self, one, other):
        try:
            while found := one.recv(1 << 16):
                self.seen += found
                other.sendall(found)
        except OSError:
            pass
        other.close()


def seen_on_the_way(own, server, client, monkeypatch):
    """Bytes between the parties and the coordinator, and the totals of all rounds."""
    watcher, totals = OnTheWay(own.plan.address), []
    connected, send_total = _wire.connected, _remote.Hub._send_total
    monkeypatch.setattr(
        _wire,
        "connected",
        lambda address, *given: connected(watcher.address, *given),
    )

    def noted(self, number):
        totals.append(self._total)
        send_total(self, number)

    monkeypatch.setattr(_remote.Hub, "_send_total", noted)
    coefs = {one.outcome().coef_.tobytes() for one in fitted(own, server, client)}
    assert len(coefs) == 1
    assert len(watcher.seen) > 3 * 8 * 100
    return bytes(watcher.seen), totals


def test_totals_are_not_read_on_the_way(own, paths, monkeypatch):
    tls = of_hub(paths), of_party(paths)
    seen, totals = seen_on_the_way(own, *tls, monkeypatch)
    assert len(totals) == 3 * 8
    assert not any(total in seen for total in totals)


def test_broken_twin_without_tls_shows_every_total(tmp_path, monkeypatch):
    seen, totals = seen_on_the_way(setting(tmp_path), None, None, monkeypatch)
    assert all(total in seen for total in totals)


def test_a_coordinator_with_another_certificate_gets_nobody(own, paths, tmp_path):
    other = certificate(tmp_path, "other")
    for one in fitted(own, of_hub(other), of_party(paths), patience=1.0):
        with pytest.raises(SourceError):
            one.outcome()
    assert [own.ledger(i).spends() for i in range(3)] == [[]] * 3


def test_connections_are_as_planned_or_there_is_no_fit(own, paths):
    """Nothing goes over an open wire because somebody forgot a certificate."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    for tls, word in ((None, "must be a context"), (trusting, "verify certificates")):
        with pytest.raises(ValueError, match=word):
            own.serve(0, tls=tls)
    open_one = changed(own.plan, is_encrypted=False)
    with pytest.raises(ValueError, match="must be a context"):
        own.serve(0, open_one, tls=of_party(paths))
    with pytest.raises(ValueError, match="must be a context"):
        coordinate(own.plan, own.hub, patience=1.0)
    assert own.ledger(0).spends() == []
    with pytest.raises(ValueError, match="must be a plan"):
        changed(own.plan, is_encrypted="yes")


def test_strangers_who_speak_no_tls_or_nothing_are_no_obstacle(own, paths):
    hub = Running(
        lambda: coordinate(own.plan, own.hub, patience=PATIENCE, tls=of_hub(paths))
    )
    wires = []
    for content in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\x16"):
        for _ in range(100):
            try:
                wires.append(socket.create_connection(own.plan.address, timeout=5))
                break
            except OSError:
                time.sleep(0.05)
        wires[-1].sendall(content)
    parties = [Running(lambda i=i: own.serve(i, tls=of_party(paths))) for i in range(3)]
    assert len({one.outcome().coef_.tobytes() for one in (hub, *parties)}) == 1
    for wire in wires:
        wire.close()


def test_processes_are_told_their_certificates(own, paths, tmp_path):
    own.plan.save(tmp_path / "plan.json")
    own.hub.save(tmp_path / "hub.key")
    own.keys[0].save(tmp_path / "0.key")
    own.ledger(0)
    tls = of_party(paths)
    rest = [Running(lambda i=i: own.serve(i, tls=tls)) for i in (1, 2)]
    hub = process(
        *("coordinate", tmp_path / "plan.json", "--key", tmp_path / "hub.key"),
        *("--certificate", paths[0], "--certificate-key", paths[1]),
    )
    one = process(
        *("serve", "--data", own.data(0), "--ledger", tmp_path / "0.db"),
        *("--key", tmp_path / "0.key", "--approve", tmp_path / "plan.json"),
        *("--authorities", paths[0]),
    )
    told = [each.communicate(timeout=120) for each in (hub, one)]
    assert [hub.returncode, one.returncode] == [0, 0], told
    assert len({run.outcome().coef_.tobytes() for run in rest}) == 1


def test_the_plan_says_whether_sums_can_be_read_on_the_way(own):
    assert "through TLS" in str(own.plan)
    assert "not encrypted" in str(changed(own.plan, is_encrypted=False))
