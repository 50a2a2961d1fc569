"""
Signatures for AWS (SigV4), made by botocore when a request is sent: credentials may have to be fetched, and a signature is good for minutes only.

Needs the extra `bedrock`. Keys come from where AWS tools look for them: the environment, its profiles, the role of the machine.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit

import attrs

from rxchat.errors import ConfigurationError
from rxchat.outgoing.common import WireRequest

__all__ = ["sign"]

SERVICE = "bedrock"
_REGION = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d)\.")


def sign(request: WireRequest, session: Any = None) -> WireRequest:
    """
    The request with its signature headers; it must be sent byte for byte as it is. May block while credentials are fetched.

    `session` is a botocore session, by default a new one. ConfigurationError without botocore, credentials or a region.
    """
    auth, awsrequest, sessions = _botocore()
    session = session or sessions.Session()
    credentials = session.get_credentials()
    if credentials is None:
        raise ConfigurationError("there are no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or give api_key")
    plain = awsrequest.AWSRequest(request.method, request.url, dict(request.headers), request.content)
    auth.SigV4Auth(credentials.get_frozen_credentials(), SERVICE, _region(request.url, session)).add_auth(plain)
    return attrs.evolve(request, headers=dict(plain.headers.items()), auth=None)


def _region(url: str, session: Any) -> str:
    """
    The region in the host's name, else the one AWS tools would take.
    """
    found = _REGION.search(urlsplit(url).hostname or "")
    named = found[1] if found else os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not named:
        raise ConfigurationError(f"no AWS region is known for {urlsplit(url).netloc}: set AWS_REGION")
    return str(named)


def _botocore() -> tuple[Any, Any, Any]:
    try:
        import botocore.auth
        import botocore.awsrequest
        import botocore.session
    except ImportError:
        raise ConfigurationError('signing requests for AWS needs botocore: install "rxchat[bedrock]", or give a Bedrock API key') from None
    return botocore.auth, botocore.awsrequest, botocore.session
