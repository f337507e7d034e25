"""What the client adds to aiohttp: proxies looked up once, an authority of one's own, TLS failures in words."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from yarl import URL

from rivermouth.ir.errors import ApiError, Kind
from rivermouth.providers.client import AiohttpClient, proxy_for, trust
from rivermouth.providers.outbound import Outbound
from rivermouth.secrets import Secret
from tests.fakes import JSON, Asked, FakeUpstream

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def body_of(client: AiohttpClient, url: str) -> bytes:
    response = await client.open("GET", url, {}, None)
    pieces = []
    while (piece := await response.read()) is not None:
        pieces.append(piece)
    await response.close(complete=True)
    return b"".join(pieces)


class TestProxy:
    @pytest.mark.parametrize("url", ["https://api.example.org/v1", "http://api.example.org"])
    def test_none_is_configured(self, url: str) -> None:
        assert proxy_for(url) == (None, {})

    def test_the_one_of_the_scheme(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
        assert proxy_for("https://api.example.org/v1") == (URL("http://proxy.example.org:3128"), {})
        assert proxy_for("http://api.example.org/v1") == (None, {})

    def test_credentials_do_not_stay_in_the_url(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("https_proxy", "http://me:p%40ss@proxy.example.org:3128")
        url, auth = proxy_for("https://api.example.org")
        assert url == URL("http://proxy.example.org:3128")
        assert auth == {"proxy-authorization": "Basic bWU6cEBzcw=="}

    def test_no_proxy_is_obeyed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
        monkeypatch.setenv("no_proxy", "example.org")
        assert proxy_for("https://api.example.org") == (None, {})

    @pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "x.localhost"])
    def test_this_machine_is_never_reached_by_a_proxy(self, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
        monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
        assert proxy_for(f"http://{host}:11434") == (None, {})

    async def test_requests_go_by_the_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def script(asked: Asked) -> None:
            await asked.answer(200, JSON, b"via proxy")

        async with FakeUpstream(script) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url.replace("://", "://me:secret@"))
            client = AiohttpClient("lab", "http://api.example.org", connect_s=5, ca_file=None)
            try:
                assert await body_of(client, "http://api.example.org/x") == b"via proxy"
            finally:
                await client.close()
            assert proxy.requests[0].path == "http://api.example.org/x"
            assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"

    async def test_tls_goes_through_a_tunnel_and_the_credentials_stay_at_the_proxy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def script(asked: Asked) -> None:
            await asked.answer(403, None, b"")

        async with FakeUpstream(script) as proxy:
            monkeypatch.setenv("https_proxy", proxy.url.replace("://", "://me:secret@"))
            client = AiohttpClient("lab", "https://api.example.org", connect_s=5, ca_file=None)
            with pytest.raises(ApiError) as caught:
                await client.open("POST", "https://api.example.org/x", {"authorization": "Bearer k"}, b"{}")
            await client.close()
            asked = proxy.requests[0]
        assert (asked.method, asked.path) == ("CONNECT", "api.example.org:443")
        assert asked.headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"
        assert "authorization" not in asked.headers
        assert (caught.value.kind, "secret" in str(caught.value)) == (Kind.NETWORK, False)


async def test_what_netrc_says_is_not_sent_beside_our_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))

    async def script(asked: Asked) -> None:
        await asked.answer(200, JSON, b"x")

    async with FakeUpstream(script) as fake:
        client = AiohttpClient("lab", fake.url, connect_s=5, ca_file=None)
        response = await client.open("POST", fake.url + "/p", {"authorization": "Bearer k"}, b"{}")
        assert await response.read() == b"x"
        await response.close(complete=True)
        await client.close()
        assert fake.requests[0].headers["authorization"] == "Bearer k"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    place = tmp_path_factory.mktemp("tls")
    cert, key = place / "cert.pem", place / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    whose = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [openssl, "req", *kind, *whose, "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    return cert, key


class CountedReads:
    """In the place of `client.trust`: which authorities were asked for, and then what it gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str | None, ...]] = []
        self.trust = trust
        monkeypatch.setattr("rivermouth.providers.client.trust", self)

    def __call__(self, *ca_files: str | None) -> ssl.SSLContext:
        self.asked.append(ca_files)
        return self.trust(*ca_files)


class TestTls:
    async def serve(self, certificate: tuple[Path, Path]) -> tuple[asyncio.Server, str]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi")
            await writer.drain()
            writer.close()

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
        return server, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    @pytest.mark.parametrize(
        ("base_url", "proxy", "reads"),
        [
            ("http://127.0.0.1:11434", None, False),
            ("http://api.example.org", None, False),
            ("http://api.example.org", "http://proxy.example.org:3128", False),
            ("http://api.example.org", "proxy.example.org:3128", False),
            ("http://api.example.org", "https://proxy.example.org", True),
            ("https://api.example.org", None, True),
            ("HTTPS://api.example.org", None, True),
            ("https://api.example.org", "http://proxy.example.org:3128", True),
        ],
    )
    def test_authorities_are_read_only_where_tls_is_spoken(
        self, monkeypatch: pytest.MonkeyPatch, base_url: str, proxy: str | None, reads: bool
    ) -> None:
        counted = CountedReads(monkeypatch)
        outbound = Outbound(proxy=Secret(proxy) if proxy is not None else None)
        AiohttpClient("lab", base_url, connect_s=5, ca_file=None, outbound=outbound)
        assert counted.asked == ([(None, None)] if reads else [])

    async def test_a_proxy_that_speaks_tls_is_trusted_by_the_file_though_the_upstream_speaks_none(
        self, certificate: tuple[Path, Path]
    ) -> None:
        server, url = await self.serve(certificate)
        outbound = Outbound(proxy=Secret(url), ca_file=str(certificate[0]))
        client = AiohttpClient("lab", "http://api.example.org", connect_s=5, ca_file=None, outbound=outbound)
        try:
            assert await body_of(client, "http://api.example.org/x") == b"hi"
        finally:
            await client.close()
            server.close()

    async def test_a_client_of_plain_http_that_is_sent_to_tls_trusts_no_stranger(
        self, certificate: tuple[Path, Path]
    ) -> None:
        server, url = await self.serve(certificate)
        client = AiohttpClient("lab", url.replace("https:", "http:"), connect_s=5, ca_file=None)
        try:
            with pytest.raises(ApiError) as caught:
                await body_of(client, url)
            assert (caught.value.kind, "certificate" in caught.value.message) == (Kind.NETWORK, True)
        finally:
            await client.close()
            server.close()

    async def test_an_authority_of_ones_own_is_trusted(self, certificate: tuple[Path, Path]) -> None:
        server, url = await self.serve(certificate)
        client = AiohttpClient("lab", url, connect_s=5, ca_file=str(certificate[0]))
        try:
            assert await body_of(client, url) == b"hi"
        finally:
            await client.close()
            server.close()

    async def test_any_other_is_not(self, certificate: tuple[Path, Path]) -> None:
        server, url = await self.serve(certificate)
        client = AiohttpClient("lab", url, connect_s=5, ca_file=None)
        try:
            with pytest.raises(ApiError) as caught:
                await body_of(client, url)
            assert caught.value.kind is Kind.NETWORK
            assert "certificate" in caught.value.message
        finally:
            await client.close()
            server.close()
