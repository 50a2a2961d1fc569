"""
Requests signed for AWS: as botocore signs them, sent as they were signed, without a trace of the keys.
"""

from __future__ import annotations

import logging
import sys
from datetime import datetime
from typing import Any
from unittest.mock import patch

import botocore.auth
import botocore.session
import pytest
from aiohttp import web
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from rxchat.client import ChatModel
from rxchat.client.signing import sign
from rxchat.errors import ConfigurationError
from rxchat.outgoing.common import WireRequest
from tests.client.watching import Serve, Watcher

ACCESS, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "a-session-token"
HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"
NOON = datetime(2026, 1, 2, 12, 0, 0)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Keys in the environment, and nothing else of this machine's.
    """
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def noon() -> Any:
    """
    The clock of the signer stands still.
    """
    with patch.object(botocore.auth, "get_current_datetime", lambda *args, **kwargs: NOON):
        yield


def signature(method: str, url: str, headers: dict[str, str], body: bytes, region: str) -> str:
    """
    What botocore makes of the parts it was told to sign, step by step.
    """
    signer = botocore.auth.SigV4Auth(Credentials(ACCESS, SECRET, TOKEN), "bedrock", region)
    request = AWSRequest(method, url, headers, body)
    request.context["timestamp"] = headers["X-Amz-Date"]
    return str(signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request))


@pytest.mark.usefixtures("keys", "noon")
def test_signed_as_botocore_does() -> None:
    """
    Scope, date and signature are botocore's for the same request; the region is the host's.
    """
    url = f"{HOST}/model/us.anthropic.claude-v1%3A0/converse-stream"
    signed = sign(WireRequest(url, {"messages": []}, {"content-type": "application/json"}, auth="sigv4"))
    authorization = signed.headers["Authorization"]
    assert authorization.startswith(f"AWS4-HMAC-SHA256 Credential={ACCESS}/20260102/eu-west-1/bedrock/aws4_request, SignedHeaders=")
    assert ("20260102T120000Z", TOKEN) == (signed.headers["X-Amz-Date"], signed.headers["X-Amz-Security-Token"])
    covered = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert ["content-type", "host", "x-amz-date", "x-amz-security-token"] == covered
    unsigned = {name: value for name, value in signed.headers.items() if name != "Authorization"}
    assert authorization.endswith(f"Signature={signature('POST', url, unsigned, signed.content, 'eu-west-1')}")
    assert signed.auth is None


@pytest.mark.usefixtures("keys")
def test_the_region_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    For an address without one in its name; without any it is asked for.
    """
    request = WireRequest("http://127.0.0.1:9/model/m/converse", {}, {}, auth="sigv4")
    with pytest.raises(ConfigurationError, match=r"no AWS region is known for 127\.0\.0\.1:9: set AWS_REGION"):
        sign(request)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    assert "/eu-central-1/bedrock/" in sign(request).headers["Authorization"]
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert "/us-west-2/bedrock/" in sign(request).headers["Authorization"]


@pytest.mark.usefixtures("keys")
def test_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The variables are named.
    """
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ConfigurationError, match="there are no AWS credentials: set AWS_ACCESS_KEY_ID"):
        sign(WireRequest(HOST, {}, {}, auth="sigv4"))


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The extra is named.
    """
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigurationError, match=r'install "rxchat\[bedrock\]"'):
        sign(WireRequest(HOST, {}, {}, auth="sigv4"))


@pytest.mark.usefixtures("keys")
async def test_sent_as_signed(serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """
    The server computes the same signature from the path and body as they arrive; no key shows in the error, the log or a repr.
    """
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    seen: list[tuple[str, dict[str, str], bytes]] = []

    async def refuse(request: web.Request) -> web.StreamResponse:
        seen.append((request.raw_path, dict(request.headers), await request.read()))
        return web.json_response({"message": f"bad key {request.headers['Authorization']}"}, status=403)

    # botocore itself says at DEBUG what it signs, session token included; that is its user's choice.
    caplog.set_level(logging.INFO, "botocore")
    caplog.set_level(logging.DEBUG, "rxchat")
    server = await serve(refuse)
    model = ChatModel("bedrock/us.anthropic.claude-v1:0", base_url=server.url.removesuffix("/v1"))
    watcher = await Watcher().watch(model.stream("Hi")).end()
    [(path, headers, body)] = seen
    assert path == "/model/us.anthropic.claude-v1%3A0/converse-stream"
    signed_names = headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    signed = {name: value for name, value in headers.items() if name.lower() in signed_names}
    url = f"http://{headers['Host']}{path}"
    assert headers["Authorization"].endswith(signature("POST", url, signed, body, "us-east-1"))
    told = f"{watcher.error!r} {watcher.error} {model!r} {watcher.items!r} {caplog.text}"
    assert SECRET not in told
    assert TOKEN not in told


async def test_a_bedrock_key_is_a_bearer_token(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With a key of Bedrock's own nothing is signed.
    """
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    seen: list[str] = []

    async def refuse(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["Authorization"])
        return web.json_response({"message": "no"}, status=403)

    server = await serve(refuse)
    await Watcher().watch(ChatModel("bedrock/m", base_url=server.url).stream("Hi")).end()
    assert ["Bearer bedrock-key"] == seen
