"""One summary a document; its reward is the share of questions that it still answers."""

from contextlib import AsyncExitStack
from typing import Any

import openai
import verifiers.v1 as vf

from precis.config import JudgeConfig
from precis.environments.summaries.judge import JudgeClient, Unscored
from precis.environments.summaries.prose import prose_share
from precis.environments.summaries.rewards import disqualify, score_zero
from precis.inference.facts import open_judge
from precis.text import count_words
from precis_summaries.taskset import SummaryTask

PACKAGE = "precis_summaries"


class OneRequestHarness(vf.Harness[vf.HarnessConfig]):
    """Sends one request, with two messages and no tools, from this process.

    Temperature and the like are the run's; the summary's length sets the most tokens.
    """

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Send the request through verifiers' server, which records the reply."""
        system, user = self.resolve_text_prompt(data)
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret) as client:
            await client.chat.completions.create(
                model=ctx.model,
                messages=[
                    {"role": "system", "content": system or ""},
                    {"role": "user", "content": user or ""},
                ],
                max_tokens=data.tokens_max,
            )
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")


class SummariesEnvConfig(vf.SingleAgentEnvConfig):
    """The policy and the judge."""

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())
    """The policy. Nothing that it writes is run, so it needs no sandbox."""
    judge: JudgeConfig = JudgeConfig()
    """The setting of Précis: by default the lexical judge on this machine; `openrouter`, `google`
    or `url` with their keys from the environment."""


class SummariesEnv(vf.Env[SummariesEnvConfig]):
    """The policy writes one summary of each document; the judge of Précis scores it.

    A summary that is empty, too long, in another script or no prose scores zero without a judge. If
    the judge fails, so does the episode; it never scores zero.
    """

    def __init__(self, config: SummariesEnvConfig) -> None:
        super().__init__(config)
        self._open = AsyncExitStack()
        self._judge: JudgeClient | None = None

    async def start(self) -> None:
        """Open the judge; all episodes share it and its limits.

        Raises:
            ConfigError: its key is not set.
        """
        self._judge = await self._open.enter_async_context(open_judge(self.config.judge))

    async def stop(self) -> None:
        """Close the judge."""
        await self._open.aclose()

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Send one request for one summary."""
        await agents.agent.run(task)

    async def finalize(self, task: vf.Task, episode: vf.Episode) -> None:
        """Score the summary.

        Raises:
            RuntimeError: the judge failed.
        """
        assert isinstance(task, SummaryTask)
        assert self._judge is not None, "An environment scores while it is being served."
        document = task.data.document
        for trace in episode.traces:
            if not trace.ok:
                continue
            summary = trace.last_reply
            why = disqualify(summary, document, task.data.words_max)
            verdict = score_zero(document) if why else await self._judge.score(document, summary)
            if isinstance(verdict, Unscored):
                raise RuntimeError(f"The judge gave no verdict ({verdict.cause}): {verdict.detail}")
            prose = prose_share(summary, document.text) * verdict.is_prose
            trace.record_reward("accuracy", prose * verdict.accuracy)
            trace.record_metric("prose", prose)
            trace.record_metric("words", count_words(summary))
            trace.record_metric("disqualified", float(why is not None or not verdict.is_prose))


def load_environment(**settings: Any) -> vf.Env:
    """Return the environment, from settings of its taskset and its judge.

    `load_environment(part="validation", judge={"provider": "openrouter"})`

    Args:
        settings: `judge`, and the fields of `SummariesConfig`: `documents`, `part`, `words_max`.
    """
    judge = settings.pop("judge", {})
    taskset = {"id": PACKAGE, **settings}
    return vf.load_environment(SummariesEnvConfig(taskset=taskset, judge=judge))
