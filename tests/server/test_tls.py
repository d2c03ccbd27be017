"""Development certificates: made once, renewed in time, trusted all along."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tandem.errors import ConfigurationError
from tandem.server.tls import TlsFiles, ensure_certificates, server_context
from tandem.store.quarantine import read_reports

NOW = datetime.now(UTC)


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def names(files: TlsFiles) -> set[str]:
    held = load(files.certificate_path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in held}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def changed(before: dict[str, bytes], directory: Path) -> set[str]:
    after = contents(directory)
    assert set(after) == {"ca.pem", "ca-key.pem", "ca.pem.copy", "ca-key.pem.copy", "server.pem", "server-key.pem"}
    return {name for name, content in after.items() if before.get(name) != content}


def shake_hands(context: ssl.SSLContext, ca_path: Path, name: str) -> str | None:
    """A real handshake over a pair of sockets, with a client as strict as they come."""
    ours, theirs = socket.socketpair()
    served = threading.Thread(target=lambda: context.wrap_socket(theirs, server_side=True).close())
    served.start()
    client = ssl.create_default_context(cafile=str(ca_path))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    try:
        with client.wrap_socket(ours, server_hostname=name) as connection:
            return connection.version()
    finally:
        served.join()


@pytest.mark.parametrize(
    "name", ["localhost", "bus.localhost", "127.0.0.1", "::1", socket.gethostname(), "bus.example"]
)
def test_a_strict_client_trusts_every_name(tmp_path: Path, name: str) -> None:
    # OpenSSL takes *.localhost for too wide a claim to match bus.localhost with it; others do match.
    context = server_context("auto", tmp_path, ["bus.example", "bus.localhost"])
    assert context is not None
    assert shake_hands(context, tmp_path / "tls" / "ca.pem", name) == "TLSv1.3"


def test_only_the_owner_reads_the_keys(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    for path in (files.key_path, tmp_path / "ca-key.pem"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.ca_path.stat().st_mode) & 0o444, "clients have to read what they trust"


def test_the_authority_may_sign_and_the_server_may_not(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    for path, is_authority in ((files.ca_path, True), (files.certificate_path, False)):
        extensions = load(path).extensions
        assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is is_authority
        assert extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is is_authority


def test_good_certificates_stay_as_they_are(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, ["bus.example"])
    before = contents(tmp_path)
    ensure_certificates(tmp_path, ["bus.example"])
    ensure_certificates(tmp_path)
    ensure_certificates(tmp_path, now=NOW + timedelta(days=397 - 32))
    assert changed(before, tmp_path) == set()


def test_a_certificate_is_renewed_before_it_ends_and_the_authority_is_kept(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    before = contents(tmp_path)
    later = NOW + timedelta(days=397 - 29)
    ensure_certificates(tmp_path, now=later)
    assert changed(before, tmp_path) == {"server.pem", "server-key.pem"}
    assert load(files.certificate_path).not_valid_after_utc > later + timedelta(days=390)


def test_a_name_that_is_missing_is_added_and_the_authority_is_kept(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    before = contents(tmp_path)
    ensure_certificates(tmp_path, ["bus.example", "10.1.2.3"])
    assert changed(before, tmp_path) == {"server.pem", "server-key.pem"}
    assert {"bus.example", "10.1.2.3", "localhost", "*.localhost", "127.0.0.1", "::1"} <= names(files)


def test_an_authority_that_ends_is_replaced_with_what_it_signed(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    before = contents(tmp_path)
    ensure_certificates(tmp_path, now=NOW + timedelta(days=3_650 - 29))
    assert changed(before, tmp_path) == set(before)
    load(files.certificate_path).verify_directly_issued_by(load(files.ca_path))


def test_an_authority_without_its_key_serves_until_something_has_to_be_signed(tmp_path: Path) -> None:
    ensure_certificates(tmp_path)
    for name in ("ca-key.pem", "ca-key.pem.copy"):
        (tmp_path / name).unlink()
    before = contents(tmp_path)
    ensure_certificates(tmp_path)
    assert contents(tmp_path) == before
    ensure_certificates(tmp_path, ["bus.example"])
    assert changed(before, tmp_path) == set(contents(tmp_path))


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem"])
@pytest.mark.parametrize("content", [None, b"", b"garbage", "flipped"])
def test_a_damaged_authority_is_mended_from_its_copy_and_reported(
    tmp_path: Path, name: str, content: bytes | str | None
) -> None:
    folder = tmp_path / "tls"
    ensure_certificates(folder)
    before = contents(folder)
    if content is None:
        (folder / name).unlink()
    elif isinstance(content, bytes):
        (folder / name).write_bytes(content)
    else:
        image = bytearray(before[name])
        image[len(image) // 2] ^= 1
        (folder / name).write_bytes(image)
    ensure_certificates(folder)
    assert contents(folder) == before, "clients trust the authority that they were given"
    (report,) = read_reports(tmp_path)
    assert report.damages[0].unit == f"the file 'tls/{name}'"
    ensure_certificates(folder)
    assert len(read_reports(tmp_path)) == 1


@pytest.mark.parametrize("name", ["ca.pem.copy", "ca-key.pem.copy"])
def test_a_damaged_copy_of_the_authority_is_made_again(tmp_path: Path, name: str) -> None:
    ensure_certificates(tmp_path)
    before = contents(tmp_path)
    (tmp_path / name).write_bytes(b"garbage")
    ensure_certificates(tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["server.pem", "server-key.pem", "ca.pem"])
@pytest.mark.parametrize("content", [None, b"", b"garbage"])
def test_what_is_damaged_or_missing_is_made_again(tmp_path: Path, name: str, content: bytes | None) -> None:
    ensure_certificates(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    files = ensure_certificates(tmp_path)
    load(files.certificate_path).verify_directly_issued_by(load(files.ca_path))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate_path, files.key_path)


def test_a_key_that_does_not_fit_its_certificate_is_replaced(tmp_path: Path) -> None:
    """As a crash between the two writes leaves them."""
    here = ensure_certificates(tmp_path / "here")
    there = ensure_certificates(tmp_path / "there")
    here.key_path.write_bytes(there.key_path.read_bytes())
    ensure_certificates(tmp_path / "here")
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(here.certificate_path, here.key_path)


def test_a_draft_that_a_crash_left_behind_does_not_widen_the_mode_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 1)
    (tmp_path / "server-key.pem.1.draft").write_bytes(b"")
    (tmp_path / "server-key.pem.1.draft").chmod(0o666)
    files = ensure_certificates(tmp_path)
    assert stat.S_IMODE(files.key_path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "bus example", "bücher.example"])
def test_a_name_that_cannot_stand_in_a_certificate_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"host name {name!r} cannot stand in a certificate"):
        ensure_certificates(tmp_path, [name])


def test_a_directory_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "tls").write_bytes(b"a file")
    with pytest.raises(ConfigurationError, match=r"--tls auto: the certificates in .*/tls cannot be used: ") as refused:
        server_context("auto", tmp_path)
    assert "\n" not in str(refused.value)


def test_off_is_off(tmp_path: Path) -> None:
    assert server_context("off", tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_certificate_of_the_users_own_is_served(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path / "own")
    context = server_context(f"{files.certificate_path},{files.key_path}", tmp_path / "data")
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert shake_hands(context, files.ca_path, "localhost") == "TLSv1.3"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("option", ["", "on", ",", "cert.pem", "cert.pem,", ",key.pem"])
def test_an_option_that_means_nothing_is_one_clear_line(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--tls {option!r}: give auto, off, or"):
        server_context(option, tmp_path)


def test_files_that_cannot_be_used_are_one_clear_line(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path)
    other = ensure_certificates(tmp_path / "other")
    key = serialization.load_pem_private_key(files.key_path.read_bytes(), password=None)
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    for certificate_path, key_path in (
        (files.certificate_path, other.key_path),
        (files.key_path, files.certificate_path),
        (files.certificate_path, encrypted),
    ):
        with pytest.raises(ConfigurationError, match="are not a certificate and its unencrypted key in PEM") as refused:
            server_context(f"{certificate_path},{key_path}", tmp_path)
        assert "\n" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"--tls: there is no file .*/absent\.pem"):
        server_context(f"{files.certificate_path},{tmp_path / 'absent.pem'}", tmp_path)
