"""
Amazon Bedrock's InvokeModelWithResponseStream: the frames of AWS around the words of the model's maker.

Every frame is a `chunk` whose payload is {"bytes": base64, "p": padding}; the base64 is JSON of the model's family. The service adds fields of its own,
`amazon-bedrock-...`: its counts, which only fill in what the model does not count (contract P4), and what a guardrail did.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from rxchat.dialects.anthropic import cached_apart
from rxchat.dialects.base import Context, Dialect, Parser, UsageFold, mapping
from rxchat.dialects.bedrock_completions import METRICS, Family, read_usage
from rxchat.dialects.bedrock_families import family_of
from rxchat.dialects.bedrock_frames import event_name, findings, payload_of, payload_start
from rxchat.errorbody import error_in, provider_error
from rxchat.events import ChatEvent, ContentFilter
from rxchat.framing.frames import AwsMessage
from rxchat.outgoing.bedrock_invoke import build
from rxchat.stage import Emit
from rxchat.strictjson import loads

__all__ = ["BEDROCK_INVOKE", "InvokeParser"]

SERVICE = "amazon-bedrock-"
INTERVENED = frozenset({"INTERVENED", "GUARDRAIL_INTERVENED"})


class InvokeParser(Parser):
    """
    The event stream of any model, and its JSON body.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.usage = UsageFold(read_usage, cached_apart)
        self.family: Family | None = None
        self._intervened: str | None = None
        self._found: list[ContentFilter] = []

    def on_message(self, message: AwsMessage, emit: Emit[ChatEvent]) -> None:
        name = event_name(message)
        if name != "chunk":
            self.unknown(name, payload_of(message), emit)
            return
        value = loads(self._bytes(message), offset=payload_start(message), depth=self.limits.json_depth)
        if not isinstance(value, dict):
            raise self.malformed("a chunk is no object")
        own = self._recognised(value, emit)
        if own and self.family is not None:
            self.family.read(own, emit)
        self._service(value, emit)

    def on_eof(self, emit: Emit[ChatEvent]) -> None:
        if self.family is None or not self.context.clean_eof:
            super().on_eof(emit)
        else:
            self._end(self.family, emit)

    def on_body(self, value: Any, emit: Emit[ChatEvent]) -> None:
        if not isinstance(value, dict):
            raise self.malformed("the body is no object")
        if error_in(value) is not None:
            raise provider_error(value)
        own = self._recognised(value, emit)
        if self.family is None:
            raise self.malformed("the body is of no known model")
        self.family.body(own, emit)
        self._service(value, emit)
        self._end(self.family, emit)

    def _leave(self, error: Exception, emit: Emit[ChatEvent]) -> None:
        super()._leave(error, emit)
        if self.family is not None:
            self.family.leave(error, emit)

    def _bytes(self, message: AwsMessage) -> bytes:
        payload = loads(message.payload, offset=payload_start(message), depth=self.limits.json_depth)
        try:
            return base64.b64decode(mapping(payload)["bytes"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise self.malformed("a chunk without bytes in base64") from None

    def _recognised(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> Mapping[str, Any]:
        """
        The model's own part; the first that tells makes the family known.
        """
        own = {name: item for name, item in value.items() if not name.startswith(SERVICE)}
        if own.get("error") and "type" not in own:
            raise provider_error(own)
        if own and self.family is None:
            self.family = family_of(own, self, self.usage)
            if self.family is None:
                self.unknown("chunk", own, emit)
        return own

    def _service(self, value: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        for found in findings(value.get(SERVICE + "trace")):
            self._found.append(found)
            emit(found)
        action = value.get(SERVICE + "guardrailAction")
        if action in INTERVENED:
            self._intervened = action
        self._metrics(mapping(value.get(SERVICE + "invocationMetrics")), emit)

    def _metrics(self, metrics: Mapping[str, Any], emit: Emit[ChatEvent]) -> None:
        if not metrics or self.family is None or self.family.counted:
            return
        known = self.usage.usage().wire
        self.usage.update({name: count for name, count in metrics.items() if name in METRICS and METRICS[name] not in known}, emit)

    def _end(self, family: Family, emit: Emit[ChatEvent]) -> None:
        """
        A guardrail that blocked ends the answer in the model's place; one that only masked decides nothing (contract V7).
        """
        blocked = None
        if self._intervened is not None and (not self._found or any(found.blocked for found in self._found)):
            blocked = self._intervened
            if not self._found:
                emit(ContentFilter("guardrail", blocked=True))
        family.close(blocked, emit)
        self.end_response(emit)


BEDROCK_INVOKE = Dialect(
    name="bedrock-invoke",
    framings={"application/vnd.amazon.eventstream": "aws-eventstream", "application/json": "json"},
    parser=InvokeParser,
    doc="Amazon Bedrock InvokeModelWithResponseStream and InvokeModel, whatever the model's maker",
    request=build,
)
