"""
What a caller says of the steps of a response: which tools, how many steps, when to stop. What runs tools is not imported for it (see `ChatModel`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from rxchat.errors import ConfigurationError
from rxchat.response import ChatResponse
from rxchat.tools import StepContext, Tool, ToolSet, ToolSource
from rxchat.tools.toolsets import as_tool_set

if TYPE_CHECKING:
    from rxchat.tools import Authorize, ToolPolicy

__all__ = ["MAX_STEPS", "StepRules", "StopWhen", "step_rules"]

MAX_STEPS = 10

# Asked behind the results of each step, with the answer so far; true: the response ends there.
StopWhen: TypeAlias = Callable[[ChatResponse], "bool | Awaitable[bool]"]


@attrs.frozen(kw_only=True)
class StepRules:
    """
    What a caller says of the steps of a response. `tools` are those of every step, or a function that names those of each; `max_steps` counts the steps;
    without a `policy` the default one holds.
    """

    tools: ToolSet | Callable[[StepContext], Any]
    max_steps: int = MAX_STEPS
    stop_when: tuple[StopWhen, ...] = ()
    policy: ToolPolicy | None = None

    @property
    def fixed(self) -> ToolSet | None:
        """
        The tools of every step; None where each step chooses its own.
        """
        return self.tools if isinstance(self.tools, ToolSet) else None

    @property
    def may_run(self) -> bool:
        """
        Whether there is, or may come, a tool that can be run.
        """
        return self.fixed is None or bool(self.fixed.runnable)


def step_rules(
    tools: ToolSource, max_steps: int, stop_when: StopWhen | Sequence[StopWhen], authorize: Authorize | None, policy: ToolPolicy | None
) -> StepRules:
    """
    The rules as they were said; ConfigurationError for what cannot be meant.
    """
    stops: tuple[Any, ...] = (stop_when,) if callable(stop_when) else tuple(stop_when)
    number: Any = max_steps
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigurationError(f"max_steps is a number from 1, not {max_steps!r}")
    if not all(callable(stop) for stop in stops):
        raise ConfigurationError("stop_when is a function of the answer so far, or several")
    chosen: Any = tools if callable(tools) and not isinstance(tools, Tool) else as_tool_set(tools)
    return StepRules(tools=chosen, max_steps=max_steps, stop_when=stops, policy=_policy(policy, authorize))


def _policy(policy: ToolPolicy | None, authorize: Authorize | None) -> ToolPolicy | None:
    if authorize is None:
        return policy
    if policy is not None and policy.authorize is not None:
        raise ConfigurationError("authorize is said twice: by itself, and by tool_policy")
    # Here, because it brings all that runs tools.
    from rxchat.tools import ToolPolicy

    return attrs.evolve(policy or ToolPolicy(), authorize=authorize)
