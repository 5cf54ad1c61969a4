"""How Wikipedia is reached: over HTTPS alone, with certificates checked, by proxy and CA bundle of the environment."""

from __future__ import annotations

import os
import re
import ssl
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from tasks.errors import InputError

# OpenSSL's names first, then those of requests and curl.
_BUNDLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_CONTACT = re.compile(r"[!-~]+@[!-~]+\.[!-~]+|https?://[!-~]+")


def connect(endpoint: str, contact: str | None, seconds: float) -> httpx.AsyncClient:
    """A client of an API.

    Args:
        endpoint: address of its `api.php`.
        contact: goes into the User-Agent.
        seconds: of every single step of a call; the whole call is limited by whoever makes it.

    Raises:
        InputError: the address is not HTTPS, there is no contact, or the environment names what is no proxy or no
            CA bundle.
    """
    place = "retrieval.wikipedia.endpoint"
    try:
        parts = urlsplit(endpoint)
        host, _ = parts.hostname, parts.port
        httpx.URL(endpoint)
    except (ValueError, httpx.InvalidURL) as error:
        raise InputError(f"{endpoint!r} is no address: {error}", where=place) from None
    if parts.scheme != "https" or not host or parts.username or parts.query or parts.fragment:
        raise InputError(f"{endpoint!r} is no plain https address", where=place, mend="write https://HOST/w/api.php")
    if contact is None or not _CONTACT.fullmatch(contact):
        raise InputError(
            f"{contact!r} is no address that Wikimedia can write to",
            where="retrieval.wikipedia.contact",
            mend="its rules ask for one (https://foundation.wikimedia.org/wiki/Policy:User-Agent_policy): "
            "write an e-mail address or a page",
        )
    agent = f"Forager/{version('forager')} ({contact}) python-httpx/{httpx.__version__}"
    try:
        _check_proxy_ports()
        return httpx.AsyncClient(
            headers={"user-agent": agent, "accept": "application/json", "accept-encoding": "gzip"},
            verify=_certificates(),
            timeout=seconds,
            follow_redirects=False,  # a redirect could lead away from HTTPS, and would be one more call
        )
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        # The address itself may hold a password.
        raise InputError(
            f"no proxy that can be used: {type(error).__name__}", where="HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
        ) from None


def _check_proxy_ports() -> None:
    """Make sure that proxies have ports that there are; httpx would find out in the midst of a call.

    Raises:
        ValueError: one has none.
    """
    for kind, address in getproxies().items():
        if kind in ("https", "http", "all"):
            _ = urlsplit(address if "://" in address else f"http://{address}").port


def _certificates() -> ssl.SSLContext:
    """Whose certificates are believed: the bundle that the environment names, else the one that comes with httpx."""
    for name in _BUNDLES:
        path = os.environ.get(name)
        if path:
            try:
                if Path(path).is_dir():
                    return ssl.create_default_context(capath=path)
                return ssl.create_default_context(cafile=path)
            except OSError as error:  # ssl.SSLError is one
                raise InputError(f"{path} is no CA bundle: {error}", where=name) from None
    return httpx.create_ssl_context(trust_env=False)
