"""Summarizing: one call for a document's summary, and a judge that answers questions from it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from typing import Any, get_args

from precis.config import BenchmarkConfig, RolloutsConfig, TrainConfig, WarmStartConfig
from precis.environments.clock import clock_stopped
from precis.environments.demonstrations import choose_best, demonstration_of
from precis.environments.protocol import AgentModel, Environment, Figure, Nouns
from precis.environments.summaries.baselines import USUAL_BASELINES, baselines
from precis.environments.summaries.forecast import (
    count_rewarded,
    forecast_judging,
    forecast_second_judge,
    forecast_service,
)
from precis.environments.summaries.judge.client import (
    KeptVerdicts,
    check_ceiling,
    check_second_judge,
    measure_ceiling,
)
from precis.environments.summaries.prompt import (
    scenario_of,
    summary_messages,
    summary_tokens_max,
)
from precis.environments.summaries.prose import prose_share
from precis.environments.summaries.rewards import disqualify, reward_share, score_zero
from precis.environments.summaries.services import Services
from precis.environments.summaries.show import questions_about, show_summary
from precis.environments.summaries.warm_start import read_summaries
from precis.llm.budget import PaidOnce
from precis.llm.server import Complete
from precis.llm.tokens import estimate_tokens
from precis.processes.kill_points import reached
from precis.records.documents import Corpus, Document, crudeness_of
from precis.records.questions import QuestionRow
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Score, Split, Unscored
from precis.records.spend import Estimate, Spend, Usage
from precis.records.verdict import Disqualified, Scored
from precis.records.warm_start import Demonstration
from precis.settings.tinker import TinkerTrainer
from precis.store import Store
from precis.text import copied_share, count_words

_WORDS_PER_TOKEN = 0.75
"""For English prose; the usual rule for the tokenizers of hosted models."""
_PROSE = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prose")


class Summaries(Environment):
    """Summaries of a corpus's documents.

    Args:
        services: the judge, a ruler that ranks the summaries of a training document instead, and a
            second judge for the held-out documents, which affects no reward.
        verdicts: replaces the judge in a benchmark, which judges texts that are not prose too.
    """

    takes_random_player = False
    nouns = Nouns(
        "summary",
        "summaries",
        "document",
        "documents",
        "accuracy",
        achieved="Share of answerable questions answered from the summary alone, on held-out "
        "documents",
    )
    columns = (
        Figure("words", "words"),
        Figure("over_length", "over_length", is_share=True),
        Figure("prose", "prose", is_share=True),
        Figure("answered, prose or not", "answered", "asked", is_share=True),
        Figure("honest", "declined", "unanswerable", is_share=True),
    )
    disqualifiers = get_args(Disqualified)

    def __init__(
        self,
        corpus: Corpus,
        rollouts: RolloutsConfig,
        services: Services,
        verdicts: KeptVerdicts | None = None,
    ) -> None:
        self.words_max = rollouts.words_max
        self._length_ramp = rollouts.length_ramp
        self.corpus = corpus
        self.judge = services.judge
        self.ruler = services.ruler
        self.second = services.second
        self._verdicts = verdicts
        self._is_unjudged = False
        self._held_out = {document.id for document in corpus.validation}
        self._documents = {one.id: one for one in (*corpus.train, *corpus.validation)}
        self.caveat = crudeness_of(corpus.validation)
        accuracy = [Figure("accuracy", "correct", "asked", is_share=True)]
        if self.second:
            model = self.second.identity["model"]
            second = Figure("second_accuracy", "second_correct", "second_asked", True, model)
            accuracy.append(second)
        self.figures = (
            *accuracy,
            Figure("words", "words"),
            Figure("copied", "copied", is_share=True),
            Figure("prose", "prose", is_share=True),
        )

    @property
    def method(self) -> str:
        return (
            "Every language model was given the same prompt: a summary in at most "
            f"{self.words_max} words; a longer one scores zero. The judge answered the "
            "questions from the summary alone. Accuracy is the share of answerable questions that "
            "it answered rightly, as far as the summary is prose. Honest is the share of "
            "unanswerable questions that it left unanswered; it earns nothing."
        )

    @property
    def identity(self) -> Mapping[str, str]:
        return self.judge.identity

    @property
    def rules(self) -> str:
        return self.judge.protocol

    @property
    def digest(self) -> str:
        return self.corpus.digest

    @property
    def spend(self) -> Spend:
        others = [one.spend for one in (self.ruler, self.second) if one]
        return sum(others, self.judge.spend)

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        documents = self.corpus.train if split == "train" else self.corpus.validation
        return list(map(scenario_of, documents))

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Score | Unscored:
        document = self._documents[scenario.id]
        messages: Any = summary_messages(document.text, self.words_max)
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(),
            messages=messages,
            max_tokens=summary_tokens_max(self.words_max),
        )
        text = reply.choices[0].message.content or ""
        # In a thread of its own pool, so that neither the event loop nor others' threads, such as
        # the lease's, wait: with a document of 20,000 words this takes seconds.
        loop = asyncio.get_running_loop()
        why = await loop.run_in_executor(_PROSE, disqualify, text, document, self.words_max)
        if why and not (self._verdicts and why == "not_prose"):
            zero = score_zero(document)
            return self._score(document, text, zero, zero, why)
        is_held_out = document.id in self._held_out
        if self._is_unjudged or (self.ruler and not is_held_out):
            return Unscored(UNJUDGED, "No judge was asked yet.")
        if not self._verdicts:
            reached("summary sampled", await model.get_step())
        ruling = self._verdicts or self.judge
        # Judges have their own deadlines, and an unreachable one is not the policy's fault.
        with clock_stopped():
            verdict = await ruling.score(document, text)
            if isinstance(verdict, Unscored):
                return verdict
            second: Scored | Unscored | None = None
            if self.second and is_held_out:
                second = await self.second.score(document, text)
        return self._score(document, text, verdict, second, why)

    async def rank(self, group: Sequence[Rollout]) -> Sequence[Rollout]:
        """Have the ruler rank the valid summaries; disqualified ones earn 0 without it."""
        if self.ruler is None:
            return group

        def scored(one: Rollout, worth: float) -> Score:
            metrics = self._metrics(self._documents[one.scenario.id], one.text)
            share = reward_share(one.text, self.words_max, self._length_ramp)
            return Score(metrics["prose"] * share * worth, metrics=metrics)

        entered = [one for one in group if one.score.cause == UNJUDGED]
        # The document is shown in full.
        return await self.ruler.rank(group, entered, scored, text_max=sys.maxsize)

    def baselines(self) -> Mapping[str, Complete]:
        return baselines()

    @property
    def usual_baselines(self) -> Sequence[str]:
        return USUAL_BASELINES

    def for_benchmark(self, config: BenchmarkConfig, paid: PaidOnce) -> Environment:
        # The lexical judge is free and deterministic.
        paid = replace(paid, kept=None) if config.judge.provider == "lexical" else paid
        verdicts = KeptVerdicts(self.judge, self.words_max, paid)
        return Summaries(self.corpus, config.rollouts, Services(self.judge), verdicts=verdicts)

    def estimate_usage(self, scenario: Scenario) -> Usage | None:
        messages = summary_messages(self._documents[scenario.id].text, self.words_max)
        sent = sum(len(message["content"]) for message in messages)
        return Usage(round(estimate_tokens(sent)), int(self.words_max / _WORDS_PER_TOKEN))

    def demonstrate(self, rollouts: Sequence[Rollout]) -> Demonstration:
        """Return the summary with the best verdict; a teacher's is not judged."""
        if not self._is_unjudged:

            def share_answered(rollout: Rollout) -> float | None:
                asked = rollout.metrics.get("asked")
                return rollout.metrics["correct"] / asked if asked else rollout.reward

            best = choose_best(rollouts, share_answered)
            words = {"words": best.metrics["words"]} if not best.cause else {}
            return best.model_copy(update={"metrics": words})
        (rollout,) = rollouts
        score = rollout.score
        cause = score.details["disqualified"] if isinstance(score, Score) else score.cause
        if cause != UNJUDGED:
            return Demonstration(scenario_id=rollout.scenario.id, cause=cause)
        return demonstration_of(rollout, metrics={"words": count_words(rollout.text)})

    def read_demonstrations(
        self, config: WarmStartConfig
    ) -> Iterable[tuple[Demonstration, Scenario | None]]:
        return read_summaries(config.file, self.corpus, self.words_max)

    def unjudged(self) -> "Summaries":
        copied = copy(self)
        copied._is_unjudged = True
        return copied

    def forecast(self, rollouts: int, *, ceiling: bool = True) -> Estimate | None:
        if self._verdicts is None or not (rollouts or ceiling):
            return None
        return self._verdicts.forecast(self.corpus.validation, rollouts, ceiling=ceiling)

    def forecasts(self, config: TrainConfig, next_step: int) -> Sequence[Estimate]:
        held_out = self.corpus.validation
        apart = len(self.warm_start.scenarios) if self.warm_start else 0
        found: list[Estimate] = []
        if isinstance(config.trainer, TinkerTrainer):
            found.append(forecast_service(config, config.trainer, next_step, held_out))
        if config.judge.provider != "lexical":
            model = self.judge.identity["model"]
            found.append(forecast_judging(config, next_step, held_out, model, apart))
        if self.ruler:
            size = config.rollouts.rollouts_per_group
            ranked = self.ruler.forecast(count_rewarded(config, next_step, apart) // size, size)
            found += [ranked] if ranked else []
        if self.second and config.second_judge and config.second_judge.provider != "lexical":
            model = self.second.identity["model"]
            found.append(forecast_second_judge(config, next_step, held_out, model))
        return found

    @property
    def trials(self) -> Mapping[str, Callable[[], Awaitable[str]]]:
        trials: dict[str, Callable[[], Awaitable[str]]] = {"judge": self.judge.check}
        if self.second:
            trials["second judge"] = partial(check_second_judge, self.judge, self.second)
        return trials

    async def ceiling(self, store: Store, scenarios_max: int | None = None) -> float | None:
        """Return the judge's accuracy on the full text of the held-out documents."""
        return await measure_ceiling(store, self.judge, self.corpus, scenarios_max, self._verdicts)

    def check_ceiling(self, ceiling: float, least: float) -> str:
        return check_ceiling(ceiling, least, self.judge.identity["model"])

    def content_of(self, scenario: Scenario) -> str:
        """Return the text alone: other questions about a trained text would test nothing."""
        return " ".join(str(scenario["text"]).split())

    def topic_of(self, scenario: Scenario) -> str:
        return str(scenario["topic"])

    def text_of(self, rollout: Rollout) -> str:
        return rollout.text

    def questions(self, rollout: Rollout) -> Sequence[QuestionRow]:
        return questions_about(rollout)

    def show(self, rollout: Rollout) -> str:
        return show_summary(rollout)

    def _score(
        self,
        document: Document,
        text: str,
        verdict: Scored,
        second: Scored | Unscored | None,
        why: Disqualified | None = None,
    ) -> Score:
        held_out = document.id in self._held_out
        # Validation and benchmark have only the hard limit.
        share = 1.0 if held_out else reward_share(text, self.words_max, self._length_ramp)
        if why is None and not verdict.is_prose:
            why = "judged_not_prose"
        metrics = self._metrics(document, text, why)
        measured = metrics["prose"]
        prose = measured * verdict.is_prose
        metrics["prose"] = prose
        metrics["correct"] = prose * verdict.correct
        metrics["asked"] = verdict.asked
        if held_out:
            metrics["copied"] = copied_share(text, document.text)
            if self.second and isinstance(second, Scored):
                metrics["second_correct"] = measured * second.is_prose * second.correct
                metrics["second_asked"] = second.asked
        if self._verdicts:
            # A summary that no judge has read has no answers, not even a declined one.
            others = [one for one in verdict.answers if one.answer and not one.answerable]
            # Texts that fail the measure of prose were judged too, and the judge may agree.
            metrics["judged_not_prose"] = float(not verdict.is_prose)
            metrics["answered"] = verdict.correct
            metrics["unanswerable"] = len(others)
            metrics["declined"] = sum(one.correct for one in others)
        details = {"answers": list(map(asdict, verdict.answers)), "disqualified": why}
        return Score(share * prose * verdict.accuracy, None, metrics, details)

    def _metrics(
        self, document: Document, text: str, why: Disqualified | None = None
    ) -> dict[str, float]:
        metrics = {
            "words": float(count_words(text)),
            "prose": prose_share(text, document.text),
        }
        for cause in get_args(Disqualified):
            metrics[cause] = float(cause == why)
        return metrics
