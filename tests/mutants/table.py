"""
The faults: what each is, where it is planted, and the tests that must see it.
"""

from __future__ import annotations

import attrs

__all__ = ["MUTANTS", "Mutant"]


@attrs.frozen
class Mutant:
    """
    One fault: `source` stands exactly once in `file` (below rxchat/) and is replaced by `fault`; then each of `tests` must fail.
    """

    name: str
    file: str
    source: str
    fault: str
    tests: tuple[str, ...]


_SSE = "tests/framing/test_sse.py"
_JSON = "tests/test_strictjson.py"
_OPENAI = "tests/dialects/test_openai_chat.py"
_STRICT = "tests/dialects/test_openai_strict.py"
_NORMALIZER = "tests/test_normalizer.py"
_AGGREGATOR = "tests/test_aggregator.py"
_LIFT = "tests/test_lift.py"
_PIPELINE = "tests/test_pipeline.py"
_REFUSALS = "tests/test_refusals.py"
_MODEL = "tests/client/test_model.py"
_CHAT = "tests/cli/test_chat.py"
_STEPS = "tests/client/test_steps.py"
_RETRY = "tests/client/test_retry.py"
_BUDGETS = "tests/client/test_budgets.py"

MUTANTS: tuple[Mutant, ...] = (
    # --- bytes ----------------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "each read is decoded by itself",
        "utf8.py",
        "data = self.held + chunk if self.held else chunk",
        "data = chunk",
        ("tests/test_decode.py::test_decoding", f"{_STRICT}::test_strict", "tests/framing/test_ndjson.py::test_records"),
    ),
    Mutant(
        "bad bytes become U+FFFD",
        "utf8.py",
        'utf_8_decode(data, "strict", False)',
        'utf_8_decode(data, "replace", False)',
        (f"{_SSE}::test_invalid_utf8", "tests/test_decode.py::test_error_says_where"),
    ),
    Mutant(
        "the byte order mark is kept",
        "framing/base.py",
        "chunk.removeprefix(_BOM)",
        "chunk",
        (f"{_SSE}::test_rules", "tests/framing/test_ndjson.py::test_records"),
    ),
    Mutant(
        "data are trimmed",
        "framing/sse.py",
        "            self._data.append(value)\n",
        "            self._data.append(value.strip())\n",
        (f"{_SSE}::test_rules",),
    ),
    Mutant(
        "CR ends no line",
        "framing/sse.py",
        'lf, cr = find(b"\\n", pos, stop), find(b"\\r", pos, stop)',
        'lf, cr = find(b"\\n", pos, stop), -1',
        (f"{_SSE}::test_rules", f"{_STRICT}::test_line_ends"),
    ),
    Mutant(
        "CR and LF in two reads are two line ends",
        "framing/sse.py",
        "            self._skip_lf = True\n",
        "            self._skip_lf = False\n",
        (f"{_SSE}::test_rules", f"{_SSE}::test_positions"),
    ),
    Mutant(
        "U+2028 ends a line",
        "framing/base.py",
        "                self._take(chunk, emit)\n",
        '                self._take(chunk.replace("\\u2028".encode(), b"\\n"), emit)\n',
        (f"{_SSE}::test_rules", "tests/framing/test_ndjson.py::test_records"),
    ),
    Mutant(
        "the line limit is one too many",
        "framing/sse.py",
        "if size > self._line_limit or self._size + size > self._event_limit:\n            self._check(line, start, True, emit)",
        "if size > self._line_limit + 1 or self._size + size > self._event_limit + 1:\n            self._check(line, start, True, emit)",
        (f"{_SSE}::test_limits",),
    ),
    Mutant(
        "the total limit is one too few",
        "framing/base.py",
        "if self._at + len(chunk) > self._total:",
        "if self._at + len(chunk) >= self._total:",
        (f"{_SSE}::test_limits", "tests/framing/test_ndjson.py::test_limits"),
    ),
    Mutant(
        "the checksum of a message is not looked at",
        "framing/eventstream.py",
        "if zlib.crc32(body) != _CRC.unpack_from(message, len(body))[0]:",
        "if False:",
        ("tests/framing/test_eventstream.py::test_faults", "tests/framing/test_eventstream.py::test_every_flipped_bit_is_seen"),
    ),
    # --- JSON -----------------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "a key may come twice",
        "strictjson.py",
        "value = _from_json(raw, allow_inf_nan=False, catch_duplicate_keys=True",
        "value = _from_json(raw, allow_inf_nan=False, catch_duplicate_keys=False",
        (f"{_JSON}::test_refused",),
    ),
    Mutant(
        "NaN is a number",
        "strictjson.py",
        "value = _from_json(raw, allow_inf_nan=False",
        "value = _from_json(raw, allow_inf_nan=True",
        (f"{_JSON}::test_refused",),
    ),
    Mutant(
        "depth is not counted",
        "strictjson.py",
        "if containers > depth and _levels(value) > depth:",
        "if False:",
        (f"{_JSON}::test_depth", f"{_JSON}::test_depth_among_much_else"),
    ),
    # --- the end of a stream --------------------------------------------------------------------------------------------------------------------
    Mutant(
        "EOF is an end",
        "dialects/openai_parser.py",
        'raise IncompleteStreamError("the body ended before a finish_reason", self.offset)',
        "pass",
        (f"{_OPENAI}::test_end",),
    ),
    Mutant(
        "an end that proves nothing is an end",
        "dialects/openai_parser.py",
        "or not self.context.clean_eof:",
        "or False:",
        (f"{_OPENAI}::test_end", f"{_MODEL}::test_a_close_delimited_body_needs_its_sentinel"),
    ),
    Mutant(
        "an event cut off by EOF is ignored",
        "dialects/base.py",
        'raise IncompleteStreamError("the body ends inside an event", held.start)',
        "return",
        (f"{_OPENAI}::test_end",),
    ),
    Mutant(
        "bytes behind the end are read",
        "dialects/base.py",
        "        emit(ResponseEnd())\n        raise StreamDone\n",
        "        emit(ResponseEnd())\n",
        (f"{_PIPELINE}::test_the_end_of_the_protocol_ends_the_request",),
    ),
    Mutant(
        "a second terminal",
        "normalizer.py",
        "{ResponseStart: Normalizer._response_start}",
        "{ResponseStart: Normalizer._response_start, Abort: Normalizer._pass, ErrorEvent: Normalizer._pass, ResponseEnd: Normalizer._pass}",
        (f"{_NORMALIZER}::test_table",),
    ),
    Mutant(
        "events behind the terminal",
        "normalizer.py",
        "        self._table = _SEALED\n",
        "",
        (f"{_NORMALIZER}::test_table",),
    ),
    Mutant(
        "an open block at the error",
        "normalizer.py",
        "    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:\n",
        "    def fail(self, error: Exception, emit: Emit[ChatEvent]) -> None:\n        return\n",
        (f"{_NORMALIZER}::test_fail_closes_and_says_no_more",),
    ),
    Mutant(
        "text stays open under thinking",
        "normalizer.py",
        "        self._close_blocks(_OTHER[group], choice, emit)\n",
        "",
        (f"{_NORMALIZER}::test_table", "tests/test_properties_tail.py::test_balanced"),
    ),
    # --- the answer -----------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "`length` is COMPLETE",
        "whole.py",
        "return Verdict.COMPLETE if finish.complete else Verdict.INCOMPLETE_FINISH",
        "return Verdict.COMPLETE",
        (f"{_AGGREGATOR}::test_verdict_at_the_end", "tests/test_whole.py::test_verdict_at_end"),
    ),
    Mutant(
        "`length` completes a call",
        "normalizer.py",
        "if end.finish_reason.complete",
        "if end.finish_reason",
        (f"{_AGGREGATOR}::test_arguments_of_a_call_the_step_ended", f"{_OPENAI}::test_done_ends_calls_but_not_length"),
    ),
    Mutant(
        "arguments are read before the call is complete",
        "growing.py",
        "_arguments(text) if said.complete and said.kind",
        "_arguments(text) if said.kind",
        (f"{_AGGREGATOR}::test_arguments_of_a_call_the_step_ended",),
    ),
    Mutant(
        "thinking alone is an answer",
        "response.py",
        "self.verdict is Verdict.COMPLETE and any(",
        "self.verdict is Verdict.COMPLETE or any(",
        (f"{_OPENAI}::test_nothing_but_thinking_is_not_committed",),
    ),
    Mutant(
        "a repeated id is concatenated",
        "dialects/openai_calls.py",
        "call.id, call.name = call.id or call_id, call.name or name",
        "call.id, call.name = call.id + call_id, call.name + name",
        (f"{_OPENAI}::test_tool_calls",),
    ),
    Mutant(
        "a second id under an index is the same call",
        "dialects/openai_calls.py",
        "if newest is None or not (_differ(call_id, newest.id) or _differ(name, newest.name)):",
        "if index is not None:",
        (f"{_OPENAI}::test_tool_calls",),
    ),
    Mutant(
        "a source is told again with every frame",
        "dialects/openai_parser.py",
        "            if key not in self._seen:\n",
        "            if True:\n",
        (f"{_OPENAI}::test_sources_are_told_once", f"{_OPENAI}::test_filter_notes_are_told_once"),
    ),
    Mutant(
        "usage is added up within a step",
        "aggregator.py",
        "known.merge(later)",
        "known.add(later)",
        (f"{_AGGREGATOR}::test_usage",),
    ),
    Mutant(
        "usage is replaced across steps",
        "aggregator.py",
        "total.add(step)",
        "total.merge(step)",
        (f"{_AGGREGATOR}::test_usage",),
    ),
    Mutant(
        "a tag cut over two deltas is text",
        "think_tags.py",
        "if any(tag.startswith(tail) for tag in self._wanted):",
        "if tail in self._wanted:",
        ("tests/test_think_tags.py::test_split_does_not_depend_on_cuts",),
    ),
    Mutant(
        "strict text goes on behind its finish",
        "dialects/openai_strict.py",
        "if self.finish is not None and (text or raw is not None):",
        "if False:",
        (f"{_STRICT}::test_strict",),
    ),
    # --- delivery -------------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "a filter hides the terminal",
        "filters.py",
        "event.terminal or type(event) in _FRAME",
        "type(event) in _FRAME",
        ("tests/test_filters.py::test_what_passes",),
    ),
    Mutant(
        "the filter stands before the fold",
        "client/call.py",
        "        self._envelope = exchange.envelope\n",
        """        from rxchat.operators import _Filter

        self._envelope = exchange.envelope
        normalizer, fold = self._envelope._tail._stages
        self._envelope._tail = type(self._envelope._tail)(normalizer, _Filter(call._shown), fold)
""",
        (f"{_MODEL}::test_a_filter_hides_events_and_changes_nothing",),
    ),
    Mutant(
        "a fault ends the stream as if it were whole",
        "operators.py",
        "            tell(self._observer, end)\n",
        "            self._observer.on_completed()\n",
        ("tests/test_operators.py::test_what_is_not_right", f"{_PIPELINE}::test_a_response_that_fails"),
    ),
    Mutant(
        "on_error comes without its event",
        "pipeline.py",
        "            self._to(emit)(ErrorEvent(error))\n",
        "            pass\n",
        (f"{_PIPELINE}::test_a_response_that_fails", f"{_PIPELINE}::test_the_order_on_failure"),
    ),
    Mutant(
        "subscriptions share their state",
        "operators.py",
        "            return Lifted(factory(), observer).connect(source, scheduler)\n\n",
        "            return Lifted(shared, observer).connect(source, scheduler)\n\n        shared = factory()\n",
        (f"{_LIFT}::test_each_subscription_has_a_stage_of_its_own", f"{_PIPELINE}::test_each_subscription_is_a_response_of_its_own"),
    ),
    Mutant(
        "what a subscriber raises is a fault of the stage",
        "operators.py",
        "                raise ConsumerError(error) from error\n",
        "                raise\n",
        (f"{_PIPELINE}::test_a_subscriber_that_raises",),
    ),
    Mutant(
        "the source is not disposed of at the end",
        "operators.py",
        "        self._over = True\n        self._upstream.dispose()\n",
        "        self._over = True\n",
        (f"{_LIFT}::test_an_interrupt_climbs_to_the_producer", f"{_PIPELINE}::test_the_end_of_the_protocol_ends_the_request"),
    ),
    # --- the head -------------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "the status is not looked at",
        "refusals.py",
        "if head.status != 200 if strict else head.status not in _ANSWERS:",
        "if False:",
        (f"{_STRICT}::test_refused_heads", f"{_MODEL}::test_a_failure_before_the_first_step"),
    ),
    Mutant(
        "the content type is not looked at",
        "refusals.py",
        'elif framing is None or (strict and framing == "json"):',
        "elif framing is None:",
        (f"{_REFUSALS}::test_strict_text_raises_at_once", f"{_MODEL}::test_strict_text_never_reads_a_refused_body"),
    ),
    # --- history --------------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "a rolled back ticket commits",
        "conversation/talk.py",
        "if ticket.state not in (TicketState.RUNNING, TicketState.FAILED):",
        "if False:",
        ("tests/conversation/test_conversation.py::test_a_rolled_back_ticket_is_worth_nothing",),
    ),
    Mutant(
        "calls without results become history",
        "conversation/talk.py",
        "if self._accept(response) and not unanswered(turn.rounds):",
        "if self._accept(response):",
        ("tests/conversation/test_conversation.py::test_calls_and_results_are_committed_together",),
    ),
    Mutant(
        "replacing fences nobody elsewhere",
        "conversation/talk.py",
        "await self.store.supersede(self.name)",
        "pass",
        ("tests/conversation/test_conversation.py::test_replace",),
    ),
    Mutant(
        "a request id is stored twice",
        "stores/memory.py",
        "if request_id in kept.records:",
        "if False:",
        ("tests/stores/test_stores.py::test_a_request_id_is_stored_once",),
    ),
    Mutant(
        "Redis knows no request id",
        "stores/redis.py",
        "local at = redis.call('HGET', key, 'request:' .. ARGV[3])",
        "local at = false",
        ("tests/stores/test_stores.py::test_a_request_id_is_stored_once",),
    ),
    # --- chat -----------------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "a no lets a tool run",
        "cli/chat_tools.py",
        'return True if said in YES + ALWAYS else Deny("the user said no")',
        "return True",
        (f"{_CHAT}::test_somebody_is_asked_before_a_tool_runs", f"{_CHAT}::test_always_is_for_that_tool_from_then_on"),
    ),
    Mutant(
        "where nobody is asked everything is allowed",
        "cli/chat_tools.py",
        "if self._everything or name in self._allowed:",
        "if self._everything or name in self._allowed or self._ask is None:",
        (f"{_CHAT}::test_in_a_pipe_a_tool_runs_only_if_it_was_allowed_before",),
    ),
    Mutant(
        "an unknown command is sent",
        "cli/chat_session.py",
        "            return WRONG\n",
        "            return self._say(item.word)\n",
        (f"{_CHAT}::test_a_wrong_command_is_not_sent",),
    ),
    Mutant(
        "a pipe goes on behind a failure",
        "cli/chat.py",
        "            if code:\n",
        "            if False:\n",
        (f"{_CHAT}::test_what_fails_is_not_kept", f"{_CHAT}::test_a_wrong_command_is_not_sent"),
    ),
    Mutant(
        "Ctrl-C leaves running what runs",
        "cli/chat_loop.py",
        "[task.cancel() for task in tasks]",
        "[task for task in tasks]",
        ("tests/cli/test_chat_loop.py::test_ctrl_c_cancels_and_waits_for_the_end",),
    ),
    Mutant(
        "an invisible mark in a call stays one",
        "cli/chat_view.py",
        '("Cc", "Cf", "Cn"',
        '("Cc", "Cn"',
        ("tests/cli/test_chat_view.py::test_a_call_is_seen_whole_and_as_it_is",),
    ),
    # --- several steps --------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "an answer with calls that nobody ran is COMPLETE",
        "whole.py",
        "if last.metadata.get(ENDED_BY) in CALLS_LEFT:",
        "if False:",
        (f"{_STEPS}::test_max_steps_leaves_the_calls_alone", f"{_STEPS}::test_a_call_that_was_cut_ends_it"),
    ),
    Mutant(
        "a step has what attempts the others left",
        "client/attempts.py",
        "self.budgets.attempt - self._former",
        "self.budgets.attempt",
        (f"{_STEPS}::test_each_step_has_attempts_of_its_own",),
    ),
    Mutant(
        "a tool goes on for nobody",
        "client/steps.py",
        "            task.cancel()\n",
        "            pass\n",
        (f"{_STEPS}::test_disposed_while_a_tool_runs", f"{_STEPS}::test_aborted_while_a_tool_runs"),
    ),
    # --- the client -----------------------------------------------------------------------------------------------------------------------------
    Mutant(
        "what was shown is asked again",
        "client/attempts.py",
        "if ended.begun or ended.attempt >= attempts",
        "if ended.attempt >= attempts",
        (f"{_RETRY}::test_behind_text_it_is_never_sent_again",),
    ),
    Mutant(
        "Retry-After is taken for a proposal",
        "client/attempts.py",
        "return max(own, asked or 0.0)",
        "return min(own, asked or own)",
        (f"{_RETRY}::test_the_wait", f"{_RETRY}::test_retry_after_is_never_shortened"),
    ),
    Mutant(
        "a consumer that holds the stream lets the provider time out",
        "client/budgets.py",
        "        self._read.hold()\n",
        "",
        (f"{_BUDGETS}::test_silence_does_not_count_while_it_is_held",),
    ),
    Mutant(
        "a heartbeat is content",
        "client/attempts.py",
        "content = event.group in CONTENT and",
        "content = event.group is not None or",
        (f"{_BUDGETS}::test_a_heartbeat_is_an_event_of_any_kind_but_no_content",),
    ),
    Mutant(
        "a body cut inside its compression is whole",
        "client/reading.py",
        "elif decoder.whole:",
        "elif True:",
        ("tests/client/test_compression.py::test_cut_inside_the_compression_is_no_end",),
    ),
    Mutant(
        "a redirect is followed with the key",
        "client/http_body.py",
        '"allow_redirects": False',
        '"allow_redirects": True',
        ("tests/client/test_http_body.py::test_a_redirect_is_not_followed",),
    ),
    Mutant(
        "a template lets control characters pass",
        "templates.py",
        r"""TEXT = rb'"([^"\\\x00-\x1f]*+""",
        r"""TEXT = rb'"([^"\\]*+""",
        ("tests/test_templates.py::test_what_a_template_reads",),
    ),
    Mutant(
        "a name that stands there twice is the slot's",
        "templates.py",
        "if at < 0 or raw.find(name, start) >= 0 or",
        "if at < 0 or",
        ("tests/test_templates.py::test_the_short_way_is_left_where_it_proves_nothing",),
    ),
    Mutant(
        "what repeated frames say is not counted",
        "dialects/base.py",
        "self.__output += len(said)",
        "self.__output += 0",
        ("tests/test_limits.py::test_what_repeated_frames_say_counts",),
    ),
    Mutant(
        "stray lines wait for the end of the read",
        "framing/sse.py",
        "clean, last_id, retry = not self._stray,",
        "clean, last_id, retry = True,",
        ("tests/framing/test_properties.py::test_usual_streams",),
    ),
    Mutant(
        "what arrives is handed on in a foreign context",
        "client/inlet.py",
        "goes_on = self._context.run(self._take, piece)",
        "goes_on = self._take(piece)",
        ("tests/client/test_inlet.py::test_each_stream_has_the_context_of_its_subscriber",),
    ),
    Mutant(
        "a held valve does not stop what arrives",
        "client/http_body.py",
        "return not self._over and (self._valve is None or not self._valve.held)",
        "return not self._over",
        ("tests/client/test_inlet.py::test_a_valve_shut_in_on_next_stops_it_at_once",),
    ),
)
