import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tasks.errors import InputError, UnavailableError
from tasks.retrieval.wikipedia import Wikipedia


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """The bundle of an authority that has not signed the fake's certificate."""
    path = tmp_path / "others.pem"
    trustme.CA().cert_pem.write_to_path(str(path))
    return path


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_bundle_of_the_environment_is_believed(
    fake, opened: Callable[..., Wikipedia], monkeypatch: pytest.MonkeyPatch, bundle: Path, name: str
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv(name, str(bundle))
    assert opened().search(["rome"], 1)[0][0].passage.title == "Rome"


@pytest.mark.parametrize("name", ["SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"])
def test_a_folder_of_certificates_is_believed(
    fake, opened, monkeypatch: pytest.MonkeyPatch, bundle: Path, tmp_path: Path, name: str
) -> None:
    hashed = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", bundle], capture_output=True, text=True, check=True
    ).stdout.strip()
    folder = tmp_path / "certificates"
    folder.mkdir()
    (folder / f"{hashed}.0").write_bytes(bundle.read_bytes())
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv(name, str(folder))
    assert opened().search(["rome"], 1)[0][0].passage.title == "Rome"


def test_a_server_that_no_known_authority_has_signed_is_refused(
    fake, opened, monkeypatch: pytest.MonkeyPatch, others: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(others))
    wikipedia = opened()
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        wikipedia.search(["rome"], 1)
    assert fake.calls == []
    assert wikipedia.counters["network"] == 1


def test_without_a_bundle_the_public_authorities_are_meant(fake, opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        opened().search(["rome"], 1)
    assert fake.calls == []


def test_a_certificate_of_another_host_is_refused(opened, make_fake) -> None:
    other = make_fake("example.org")
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        opened(endpoint=other.endpoint).search(["rome"], 1)
    assert other.calls == []


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "ALL_PROXY", "https_proxy"])
def test_the_proxy_of_the_environment_is_used(fake, opened, proxy, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, proxy.address)
    assert opened().search(["rome"], 1)[0][0].passage.title == "Rome"
    assert proxy.asked == [f"CONNECT localhost:{fake.port}"]
    assert len(fake.calls) == 1


def test_no_proxy_is_used_for_hosts_that_need_none(fake, opened, proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    monkeypatch.setenv("NO_PROXY", "example.org,localhost")
    assert opened().search(["rome"], 1)[0][0].passage.title == "Rome"
    assert proxy.asked == []


def test_certificates_are_checked_behind_a_proxy_too(
    fake, opened, proxy, monkeypatch: pytest.MonkeyPatch, others: Path
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.address)
    monkeypatch.setenv("SSL_CERT_FILE", str(others))
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
        opened().search(["rome"], 1)
    assert fake.calls == []


def test_a_proxy_that_is_gone_makes_a_search_unavailable(opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    with pytest.raises(UnavailableError):
        opened().search(["rome"], 1)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://en.wikipedia.org/w/api.php",
        "en.wikipedia.org/w/api.php",
        "ftp://en.wikipedia.org",
        "https://",
        "https://host:99999/w/api.php",
        "https://user:word@host/w/api.php",
        "https://host/w/api.php?action=query",
        "",
    ],
)
def test_what_is_no_https_address_is_refused(opened, endpoint: str) -> None:
    with pytest.raises(InputError, match=r"retrieval\.wikipedia\.endpoint"):
        opened(endpoint=endpoint)


@pytest.mark.parametrize("contact", [None, "", "me", "a@b.org\r\nx: y", "a b@c.org", "ä@b.org", "http://"])
def test_without_a_contact_nothing_is_called(opened, contact: str | None) -> None:
    with pytest.raises(InputError, match=r"retrieval\.wikipedia\.contact"):
        opened(contact=contact)


@pytest.mark.parametrize("contact", ["a@b.org", "https://example.org/forager"])
def test_a_contact_is_an_e_mail_address_or_a_page(opened, contact: str) -> None:
    opened(contact=contact)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_what_is_no_bundle_is_named(
    opened, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, content: str | None
) -> None:
    path = tmp_path / "bundle.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.delenv("SSL_CERT_FILE")
    monkeypatch.setenv(name, str(path))
    with pytest.raises(InputError, match=name):
        opened()


@pytest.mark.parametrize(
    "address",
    ["gopher://user:secret@host", "http://user:secret@host:port", "http://user:secret@host:99999", "host:99999"],
)
def test_what_is_no_proxy_is_refused_and_its_password_not_said(
    opened, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(InputError, match="PROXY") as caught:
        opened()
    assert "secret" not in str(caught.value)
