"""Summarizing: one call for a document's summary, and a judge who answers questions from it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Self, get_args

from precis.config import RolloutsConfig, TrainConfig
from precis.environments.clock import clock_stopped
from precis.environments.protocol import Environment, Figure, Nouns
from precis.environments.summaries.services import Services
from precis.environments.summaries.show import show_summary
from precis.environments.summaries.task import Summarizing
from precis.environments.summaries.warm_start.documents import WarmStart, prepare_warm_start
from precis.environments.trajectories import trajectory_of
from precis.processes.kill_points import reached
from precis.records.cloze import crudeness_of
from precis.records.documents import Corpus, Document
from precis.records.rollout import Rollout, Scenario, Score, Split, Unscored
from precis.records.spend import Spend
from precis.records.verdict import Disqualified, Scored
from precis.text import copied_share, count_words

if TYPE_CHECKING:
    import art

_UNJUDGED = "unjudged"


class Summaries(Environment):
    """Summaries of a corpus's documents.

    Args:
        corpus: the documents to train on, without those of the warm start, and those held out.
        services: the judge, which scores a summary by the questions that it answers; a ruler, that
            ranks the summaries of a training document against each other instead; and a second
            judge for the held-out documents, who decides no reward.
        warm_start: what is imitated before the first step.

    Attributes:
        task: prompt, limits, and what can be said of a summary without a judge.
    """

    def __init__(
        self,
        corpus: Corpus,
        rollouts: RolloutsConfig,
        services: Services,
        warm_start: WarmStart | None = None,
    ) -> None:
        self.task = Summarizing(rollouts.words_max, rollouts.length_ramp)
        self.corpus = corpus
        self.services = services
        self.judge = services.judge
        self.ruler = services.ruler
        self.second = services.second
        self.warm_start = warm_start
        self._held_out = {document.id for document in corpus.validation}
        everyone = (*corpus.train, *corpus.warm_start, *corpus.validation)
        self._documents = {document.id: document for document in everyone}

    @classmethod
    def of(cls, config: TrainConfig, corpus: Corpus, services: Services) -> Self:
        """The summaries of a training run, whose warm start has documents set apart.

        Raises:
            DocumentsError: the warm start leaves too few, or its file can't be used.
        """
        task = Summarizing(config.rollouts.words_max, config.rollouts.length_ramp)
        warm_start, drawn_from = prepare_warm_start(config.warm_start, corpus, task)
        return cls(drawn_from, config.rollouts, services, warm_start)

    @property
    def nouns(self) -> Nouns:
        return Nouns(
            "summary",
            "summaries",
            "document",
            "documents",
            "accuracy",
            achieved="Share of answerable questions answered from the summary alone, on held-out "
            "documents",
        )

    @property
    def figures(self) -> Sequence[Figure]:
        figures = [Figure("accuracy", "correct", "asked", is_share=True)]
        if self.second:
            model = self.second.identity["model"]
            second = Figure("second_accuracy", "second_correct", "second_asked", True, model)
            figures.append(second)
        shares = [Figure(name, name, is_share=True) for name in ("copied", "prose")]
        return [*figures, Figure("words", "words"), *shares]

    @property
    def identity(self) -> Mapping[str, str]:
        return self.judge.identity

    @property
    def digest(self) -> str:
        return self.corpus.digest

    @property
    def caveat(self) -> str:
        return crudeness_of(self.corpus.validation)

    @property
    def spend(self) -> Spend:
        others = [one.spend for one in (self.ruler, self.second) if one]
        return sum(others, self.judge.spend)

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        documents = self.corpus.drawn if split == "train" else self.corpus.validation
        return list(map(scenario_of, documents))

    async def rollout(self, model: "art.Model[Any, Any]", scenario: Scenario) -> Score | Unscored:
        """Ask for a summary, and have it judged."""
        document = self._documents[scenario.id]
        messages: Any = self.task.messages(document)
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, max_tokens=self.task.tokens_max
        )
        text = reply.choices[0].message.content or ""
        why = self.task.disqualify(text, document)
        if why:
            zero = self.task.score_zero(document)
            return self._score(document, text, zero, zero, why)
        is_held_out = document.id in self._held_out
        if self.ruler and not is_held_out:
            return Unscored(_UNJUDGED, "No judge was asked yet.")
        reached("summary sampled", await model.get_step())
        # Judges have deadlines of their own, and one that is out is not the policy's fault.
        with clock_stopped():
            verdict = await self.judge.score(document, text)
            if isinstance(verdict, Unscored):
                return verdict
            second: Scored | Unscored | None = None
            if self.second and is_held_out:
                second = await self.second.score(document, text)
        return self._score(document, text, verdict, second)

    async def rank(self, group: Sequence[Rollout]) -> Sequence[Rollout]:
        """Have the ruler rank those that are in order; the disqualified earn nothing without it."""
        import art

        entered = [one for one in group if one.score.cause == _UNJUDGED]
        if self.ruler is None or not entered:
            return group
        ranked = await self.ruler.score_group(art.TrajectoryGroup(map(trajectory_of, entered)))
        scores: dict[int, Score | Unscored] = {}
        for place, one in enumerate(entered):
            if isinstance(ranked, Unscored):
                scores[one.index] = ranked
            else:
                document = self._documents[one.scenario.id]
                metrics = self._metrics(document, one.text)
                share = metrics["prose"] * self.task.reward_share(one.text)
                scores[one.index] = Score(share * ranked[place], metrics=metrics)
        return [replace(one, score=scores.get(one.index, one.score)) for one in group]

    def show(self, rollout: Rollout) -> str:
        """The summary, with its questions and verdicts."""
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
        # Validation and benchmark know the hard limit alone.
        share = 1.0 if held_out else self.task.reward_share(text)
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
        details = {"answers": list(map(asdict, verdict.answers)), "disqualified": why}
        return Score(share * prose * verdict.accuracy, None, metrics, details)

    def _metrics(
        self, document: Document, text: str, why: Disqualified | None = None
    ) -> dict[str, float]:
        metrics = {
            "words": float(count_words(text)),
            "prose": self.task.prose_share(text, document),
        }
        for cause in get_args(Disqualified):
            metrics[cause] = float(cause == why)
        return metrics


def scenario_of(document: Document) -> Scenario:
    """A document as the start of a group."""
    questions = list(map(asdict, document.questions))
    data = {"topic": document.topic, "text": document.text, "questions": questions}
    return Scenario(document.id, data)
