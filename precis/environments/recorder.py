"""The recorder: passes agents' calls on to policies, and makes rollouts of them.

    agent → the rollout's address → session → policy's client → policy

An agent is any client of OpenAI's chat completions. In this process `model.openai_client()` calls
the session directly; another program calls `model.inference_base_url` on the loopback.
"""

import asyncio
import itertools
import json
import logging
import numbers
import os
import secrets
import sys
import sysconfig
import traceback
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

from precis.config import RunConfig
from precis.environments.addresses import ROOT, Sessions
from precis.environments.clock import Clock
from precis.environments.programs import bypass_proxy, without_secrets
from precis.environments.protocol import AgentModel, Environment
from precis.environments.session import Policy, Session
from precis.errors import ConfigError, PrecisError, without_controls
from precis.llm.loop_server import LoopServer
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Score, Unscored

if TYPE_CHECKING:
    import openai

_GRACE_S = 5.0
"""The time for an agent to end after its rollout has ended."""
_LIBRARY_FOLDERS = (
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "purelib", "platlib")),
    f"{Path(__file__).parents[1]}/",
    "<frozen ",  # the parts of Python that come without a file, such as `os`
)
"""The folders of Python, of installed packages and of Précis: an error is located at the line that
called into them."""
_DETAIL_MAX = 300
_UNSCORED_MAX = 1000
_LARGEST = 1e30
"""The largest reward or metric: sums and squares of larger ones overflow."""
_NO_NUMBER = f"not a number up to {_LARGEST:g}"
_NOT_THE_AGENT = (PrecisError, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)

logger = logging.getLogger(__name__)


@dataclass
class PlainModel:
    """An agent's model without ART, as when only playing: the part of an `art.Model` that ART's
    examples use, for one rollout. `http` is the transport of `openai_client()`; `step` is 0 for a
    model that is not trained."""

    name: str
    inference_model_name: str
    inference_base_url: str
    inference_api_key: str = field(repr=False)
    config: Any
    http: httpx.AsyncClient = field(repr=False)
    step: int
    trainable: bool
    project: str = "precis"
    _client: "openai.AsyncOpenAI | None" = field(default=None, repr=False)

    def get_inference_name(self, step: int | None = None) -> str:
        return self.inference_model_name

    async def get_step(self) -> int:
        """Return the step of the adapter that answers."""
        return self.step

    def openai_client(self) -> "openai.AsyncOpenAI":
        """Return the client whose calls are recorded."""
        if self._client is None:
            from precis.environments.recorded_client import recorded_client

            self._client = recorded_client(
                self.inference_base_url, self.inference_api_key, self.http
            )
        return self._client


class Recorder:
    """Opens an address for each rollout, and records the calls to it.

    `async with Recorder() as recorder: await recorder.run(policy, environment, scenario)`
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._host = host
        self._numbers = itertools.count(1)

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Return the recorder of a run or a benchmark, on the host of its settings."""
        workers = getattr(config.environment, "workers", None)
        return cls(workers.recorder_host) if workers else cls()

    async def __aenter__(self) -> Self:
        self._sessions = Sessions()
        self._server = LoopServer(self._sessions.app, self._host)
        try:
            await self._server.start()
        except OSError as error:
            raise ConfigError(
                f"The recorder can't listen at {self._host}: {error.strerror}.",
                "Give `environment.workers.recorder_host` an address of this machine.",
            ) from error
        # An agent may ask by URL, with any client.
        bypass_proxy(os.environ, self._host)
        # In process and shared: making a client takes 44 ms.
        transport = httpx.ASGITransport(self._sessions.app)
        self._http = httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
        await self._server.stop()

    async def run(
        self, policy: Policy, environment: Environment, scenario: Scenario, index: int = 0
    ) -> Rollout:
        """Have an environment attempt a scenario with a policy. A failed attempt has the score
        `Unscored`, with its cause. Raises PrecisError if this policy or this environment can't be
        used any more."""
        session = Session(policy, scenario, index)
        clock = Clock(policy.limits.deadline_s)
        number = str(next(self._numbers))
        key = secrets.token_urlsafe(24)
        self._sessions.add(number, key, session)
        try:
            model = self._model(policy, environment, number, key)
            with clock.running():
                agent = asyncio.create_task(attempt(environment, model, scenario))
                score = await _await_score(agent, session, clock)
        finally:
            self._sessions.remove(number)
        if not session.calls and (isinstance(score, Score) or score.cause == UNJUDGED):
            score = session.refusal or Unscored(
                "no_calls",
                "It ended without a call to the model: it must ask by `model.openai_client()`, or "
                "at the address that it is given, and no cache may answer instead.",
            )
        if isinstance(score, Unscored):
            # An agent's error may quote a tool's output, an address or a key, and is shown.
            detail = without_secrets(without_controls(score.detail))[:_UNSCORED_MAX]
            score = replace(score, detail=detail)
        return Rollout(scenario, index, tuple(session.calls), score)

    def _model(self, policy: Policy, environment: Environment, number: str, key: str) -> Any:
        """Return the model of a rollout: ART's if ART is imported, else a `PlainModel`."""
        name = policy.name or policy.client.endpoint.model
        known: dict[str, Any] = {
            "http": self._http,
            "step": policy.step or 0,
            "trainable": policy.step is not None,
            "name": name,
            "inference_model_name": name,
            "config": environment.model_config,
            "inference_api_key": key,
            "inference_base_url": f"http://{self._host}:{self._server.port}{ROOT}{number}/v1",
        }
        if sys.modules.get("art") is None:  # an agent that needs ART's has imported it
            return PlainModel(**known)
        from precis.environments.rollout_model import RolloutModel

        return RolloutModel(**known)


async def attempt(
    environment: Environment, model: AgentModel, scenario: Scenario
) -> Score | Unscored:
    """Have an environment attempt a scenario; turn an agent's error into an Unscored, unless it is
    a PrecisError. Of a group of errors the first counts."""
    try:
        return score_of(await environment.rollout(model, scenario))
    except _NOT_THE_AGENT:
        raise
    except BaseException as raised:
        error = raised
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, PrecisError | asyncio.CancelledError):
            raise error from raised
        return Unscored("agent_failed", describe_error(error))


def describe_error(error: BaseException) -> str:
    """Return what an agent has raised in a line, with the last place in its own files, if any."""
    said = type(error).__name__
    with suppress(Exception):  # raised by its own `__str__`
        text = " ".join(without_secrets(str(error)).split())[:_DETAIL_MAX]
        said = f"{said}: {text}" if text else said
    frames = traceback.extract_tb(error.__traceback__)
    of_agent = [frame for frame in frames if not frame.filename.startswith(_LIBRARY_FOLDERS)]
    if of_agent:
        last = of_agent[-1]
        said = f"{said} ({last.filename}, line {last.lineno})"
    if isinstance(error, ModuleNotFoundError):
        said = f"{said}; install it by `{sys.executable} -m pip install …`"
    return said


async def _await_score(
    agent: asyncio.Task[Score | Unscored], session: Session, clock: Clock
) -> Score | Unscored:
    """Return the agent's score, or why it has none, after the agent has ended or been abandoned."""
    try:
        ends: set[asyncio.Future[Any]] = {agent, session.over, clock.expired}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if session.over.done():
            await asyncio.wait({agent}, timeout=_GRACE_S)  # it may need to clean up
            reason = session.over.result()
            if isinstance(reason, PrecisError):
                raise reason
            return reason
        if not agent.done():
            return Unscored("rollout_timeout", f"No score within {clock.seconds:g} s.")
        if agent.cancelled():
            return Unscored("agent_failed", "It cancelled itself.")
        score = agent.result()
        if isinstance(score, Unscored) and score.cause == "agent_failed" and session.refusal:
            return session.refusal
        return score
    finally:
        if not agent.done():
            agent.cancel()
            await asyncio.wait({agent}, timeout=_GRACE_S)
        if not agent.done():
            logger.warning("An agent still runs %g s after its rollout has ended.", _GRACE_S)


def score_of(returned: object) -> Score | Unscored:
    """Convert an agent's result to a score: a number is a reward, a boolean a success or failure; a
    trajectory of ART's gives its reward and its metrics. A metric `success` is the success of a
    score without one."""
    art = sys.modules.get("art")  # imported by any agent that returns a trajectory
    if isinstance(returned, Unscored):
        return Unscored(without_controls(str(returned.cause)), str(returned.detail))
    returned = _plain(returned)
    if isinstance(returned, Score):
        score = returned
    elif isinstance(returned, bool):
        score = Score(float(returned), returned)
    elif isinstance(returned, numbers.Real):
        score = Score(float(returned))
    elif art is not None and isinstance(returned, art.Trajectory):
        score = Score(returned.reward, None, returned.metrics)
    else:
        what = "nothing" if returned is None else f"a {type(returned).__name__}"
        detail = f"It returned {what}: return a Score, a number or an art.Trajectory."
        return Unscored("no_score", detail)
    reward = _plain(score.reward)
    if not _is_usable(reward):
        return Unscored("no_score", f"Its reward is {reward!r}, which is {_NO_NUMBER}.")
    metrics = {}
    for name, given in score.metrics.items():
        value = _plain(given)
        if not _is_usable(value):
            return Unscored("no_score", f"Its metric {name} is {value!r}, which is {_NO_NUMBER}.")
        metrics[without_controls(str(name))] = float(value)
    try:
        json.dumps(score.details, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        return Unscored("no_score", f"Its details are not JSON: {error}.")
    success = _plain(score.success)
    if success is None:
        success = metrics.pop("success", None)
    if not isinstance(success, numbers.Real | None):
        return Unscored("no_score", f"Its success is {success!r}, neither true nor false.")
    return Score(float(reward), None if success is None else bool(success), metrics, score.details)


def _plain(value: Any) -> Any:
    """Convert a number or a boolean of numpy or torch, or a Decimal, to Python's."""
    with suppress(AttributeError, RuntimeError, TypeError, ValueError):  # others have no one item
        return float(value) if isinstance(value, Decimal) else value.item()
    return value


def _is_usable(value: object) -> bool:
    return isinstance(value, numbers.Real) and abs(float(value)) <= _LARGEST
