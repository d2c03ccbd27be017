"""Certificates and the TLS context of the listening ports.

`--tls auto` makes a certificate authority for development, once, and a certificate for this machine that it signs. The
authority is kept: a client that was told to trust `ca.pem` goes on trusting whatever certificate follows.

    DIR/ca.pem           the authority's certificate, what clients are given to trust
    DIR/ca-key.pem       its key, 0600
    DIR/server.pem       this machine's certificate
    DIR/server-key.pem   its key, 0600
    DIR/ca.pem.copy, DIR/ca-key.pem.copy
                         the authority again, with a checksum: a file of it that is damaged or missing is mended from
                         its copy, since every client would have to be told about a new authority
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from zlib import crc32

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tandem.errors import ConfigurationError
from tandem.store.damage import Damage
from tandem.store.quarantine import copy_aside

logger = logging.getLogger(__name__)

__all__ = ["TlsFiles", "ensure_certificates", "find_damaged_authority", "server_context"]

# Days. The authority outlives the installations that trust it; whoever changes it has to tell every client.
AUTHORITY_VALIDITY_DAYS: Final = 3_650

# Days. Some clients refuse a server's certificate that is valid for longer than 398 days.
CERTIFICATE_VALIDITY_DAYS: Final = 397

# Days. A certificate with less than this left is made anew at the start of the server.
RENEWAL_DAYS: Final = 30

# Days. Certificates are valid from a day ago, for clients whose clock is behind ours.
BACKDATING_DAYS: Final = 1

# What every development certificate is good for, beside the machine's own name.
LOOPBACK_NAMES: Final = ("localhost", "*.localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the certificates are."""

    ca_path: Path
    certificate_path: Path
    key_path: Path


@dataclass(frozen=True, slots=True)
class _Pair:
    """A certificate and the private key that belongs to it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def server_context(option: str, data_dir: Path, host_names: Sequence[str] = ()) -> ssl.SSLContext | None:
    """The TLS context for `--tls auto|off|CERT,KEY`; None means that TLS is not spoken."""
    if option == "off":
        return None
    if option == "auto":
        files = ensure_certificates(data_dir / "tls", host_names)
        return _context(files.certificate_path, files.key_path)
    certificate, comma, key = option.partition(",")
    if not (comma and certificate and key):
        raise ConfigurationError(f"--tls {option!r}: give auto, off, or a certificate file and a key file as CERT,KEY")
    return _context(Path(certificate), Path(key))


def _context(certificate_path: Path, key_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could make us compute handshakes without end on one connection.
    context.options |= ssl.OP_NO_RENEGOTIATION
    for path in (certificate_path, key_path):
        if not path.is_file():
            raise ConfigurationError(f"--tls: there is no file {path}")
    try:
        # An encrypted key fails on the empty password that `str` gives; without one OpenSSL would ask the terminal.
        context.load_cert_chain(certificate_path, key_path, password=str)
    except OSError as error:
        raise ConfigurationError(
            f"--tls: {certificate_path} and {key_path} are not a certificate and its unencrypted key in PEM: {error}"
        ) from error
    return context


def ensure_certificates(directory: Path, host_names: Sequence[str] = (), *, now: datetime | None = None) -> TlsFiles:
    """Make the authority and the server's certificate, unless good ones are there.

    A certificate is good until 30 days before its end, if it has all names and the authority signed it.
    """
    now = now or datetime.now(UTC)
    names = _general_names((*LOOPBACK_NAMES, *_machine_names(), *host_names))
    files = TlsFiles(directory / "ca.pem", directory / "server.pem", directory / "server-key.pem")
    authority_key_path = directory / "ca-key.pem"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _mend_authority(directory, files.ca_path, authority_key_path)
        server = _load(files.certificate_path, files.key_path)
        authority_certificate = _load_certificate(files.ca_path)
        if server and authority_certificate and _is_good(server.certificate, authority_certificate, names, now):
            return files
        authority = _load(files.ca_path, authority_key_path)
        if authority is None or _is_ending(authority.certificate, now):
            authority = _make_authority(now)
            _save(authority, files.ca_path, authority_key_path)
            _copy_authority(files.ca_path, authority_key_path)
        _save(_make_server(authority, names, now), files.certificate_path, files.key_path)
    except OSError as error:
        raise ConfigurationError(f"--tls auto: the certificates in {directory} cannot be used: {error}") from error
    return files


# --- the copy of the authority ----------------------------------------------------------------------------------


def find_damaged_authority(directory: Path) -> list[Damage]:
    """Return which files of the authority are damaged and can be mended. Nothing is changed."""
    return [
        Damage(f"the file 'tls/{path.name}'", "it differs from its copy, which is intact")
        for path in (directory / "ca.pem", directory / "ca-key.pem")
        if not _is_intact(path)
    ]


def _mend_authority(directory: Path, *paths: Path) -> None:
    """Replace damaged files of the authority with their copies, and report that; make copies that are missing."""
    damages = find_damaged_authority(directory)
    if damages:
        damaged = [path for path in paths if not _is_intact(path)]
        copy_aside(directory.parent, damaged, damages)
        for damage in damages:
            logger.error("damage: %s", damage.sentence)
        for path in damaged:
            _write(path, _intact_copy(path) or b"", mode=0o600 if path.name == "ca-key.pem" else 0o644)
    if any(_intact_copy(path) is None for path in paths) and _load(*paths) is not None:
        _copy_authority(*paths)


def _is_intact(path: Path) -> bool:
    """Whether a file is what its copy says; without an intact copy nobody can tell."""
    content = _intact_copy(path)
    return content is None or (path.exists() and path.read_bytes() == content)


def _copy_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.copy")


def _copy_authority(*paths: Path) -> None:
    for path in paths:
        content = path.read_bytes()
        _write(_copy_of(path), b"%08x\n" % crc32(content) + content, mode=0o600)


def _intact_copy(path: Path) -> bytes | None:
    """Return what a file should hold; None if its copy is missing or damaged."""
    try:
        checksum, _, content = _copy_of(path).read_bytes().partition(b"\n")
    except FileNotFoundError:
        return None
    return content if checksum == b"%08x" % crc32(content) else None


# --- names ------------------------------------------------------------------------------------------------------


def _machine_names() -> tuple[str, ...]:
    """The machine's own name, if it can stand in a certificate: nobody chose it for this purpose."""
    name = socket.gethostname()
    return (name,) if name and name.isascii() and not name.isspace() else ()


def _general_names(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_general_name(name) for name in dict.fromkeys(names)]


def _general_name(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    if not name or not name.isascii() or any(character.isspace() for character in name):
        raise ConfigurationError(f"host name {name!r} cannot stand in a certificate: give an ASCII name or an address")
    return x509.DNSName(name)


# --- what is there ----------------------------------------------------------------------------------------------


def _load_certificate(path: Path) -> x509.Certificate | None:
    """What cannot be read as a certificate counts as missing: these files are ours, and made again at no loss."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _load(certificate_path: Path, key_path: Path) -> _Pair | None:
    """The pair, if the two files are there and belong together: a crash may have come between writing the two."""
    certificate = _load_certificate(certificate_path)
    try:
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    if certificate is None or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    return _Pair(certificate, key) if certificate.public_key() == key.public_key() else None


def _is_good(
    certificate: x509.Certificate, authority: x509.Certificate, names: Sequence[x509.GeneralName], now: datetime
) -> bool:
    if _is_ending(certificate, now) or _is_ending(authority, now):
        return False
    try:
        certificate.verify_directly_issued_by(authority)
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return set(names) <= set(held)


def _is_ending(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - now < timedelta(days=RENEWAL_DAYS)


# --- what is made -----------------------------------------------------------------------------------------------


def _make_authority(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _subject("Tandem development CA")
    certificate = (
        _builder(name, name, key, now, AUTHORITY_VALIDITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Pair(certificate, key)


def _make_server(authority: _Pair, names: Sequence[x509.GeneralName], now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate.subject
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        _builder(_subject("Tandem development server"), issuer, key, now, CERTIFICATE_VALIDITY_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return _Pair(certificate, key)


def _subject(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, validity_days: int
) -> x509.CertificateBuilder:
    public_key = key.public_key()
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=BACKDATING_DAYS))
        .not_valid_after(now + timedelta(days=validity_days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _save(pair: _Pair, certificate_path: Path, key_path: Path) -> None:
    """Two files cannot be replaced at once: after a crash in between they do not match, and are made again."""
    key_text = pair.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(key_path, key_text, mode=0o600)
    _write(certificate_path, pair.certificate.public_bytes(serialization.Encoding.PEM), mode=0o644)


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """All or nothing, and never for a moment with a wider mode than it should have."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        # A draft that a crash left behind keeps the mode it had.
        draft.chmod(mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
