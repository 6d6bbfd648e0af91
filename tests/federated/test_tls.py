"""Connections through TLS: nobody on the way reads sums, and only as planned."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl

import pytest

from skdp.exceptions import SourceError
from skdp.federated import coordinate
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


@pytest.mark.long
def test_processes_are_told_their_certificates(own, paths, tmp_path):
    own.plan.save(tmp_path / "plan.json")
    own.hub.save(tmp_path / "hub.key")
    own.keys[0].save(tmp_path / "0.key")
    own.ledger(0)
    tls = of_party(paths)
    rest = [Running(lambda i=i: own.serve(i, tls=tls, patience=100)) for i in (1, 2)]
    hub = process(
        *("coordinate", tmp_path / "plan.json", "--key", tmp_path / "hub.key"),
        *("--certificate", paths[0], "--certificate-key", paths[1]),
        *("--patience", 100),
    )
    one = process(
        *("serve", "--data", own.data(0), "--ledger", tmp_path / "0.db"),
        *("--key", tmp_path / "0.key", "--approve", tmp_path / "plan.json"),
        *("--authorities", paths[0], "--record", tmp_path / "0.json"),
        *("--patience", 100),
    )
    told = [each.communicate(timeout=120) for each in (hub, one)]
    assert [hub.returncode, one.returncode] == [0, 0], told
    assert len({run.outcome().coef_.tobytes() for run in rest}) == 1
    assert json.loads((tmp_path / "0.json").read_text())["epsilon"] == 1.0
    assert len(own.ledger(0).spends()) == 1
