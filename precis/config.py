"""Every setting of every flow: frozen models that Prefect's UI shows as forms.

The sentence under a field is its help in the UI and in the README. Units are in the names.
Secrets are not settings: they are read from the environment (`precis.environment`).
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from precis.environment import Environment
from precis.summarize import WORDS_MAX

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Baseline = Literal["lead-350", "random-350", "centroid"]


class Settings(BaseModel):
    """Base of all settings: immutable, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DocumentsConfig(Settings):
    """Which documents to train on, and which to hold out."""

    source: str = "bundled"
    """`bundled`, a data set on the Hub (`ServiceNow/repliqa`), or a parquet, JSONL or CSV file
    or folder with RepLiQA's columns."""
    hub_split: str = "repliqa_0"
    """The split to read when `source` is on the Hub."""
    train_size: int = Field(
        default_factory=lambda: Environment().train_size, ge=1, json_schema_extra={"default": 3500}
    )
    """Documents to train on; the variable TRAIN_SIZE, or 3500, where not given."""
    val_size: int = Field(
        default_factory=lambda: Environment().val_size, ge=1, json_schema_extra={"default": 91}
    )
    """Documents held out for validation and the benchmark; the variable VAL_SIZE, or 91, where
    not given."""
    seed: int = 1
    """Seed of the split."""


class RolloutsConfig(Settings):
    """How a step samples and what it does with summaries that could not be judged."""

    groups_per_step: int = Field(5, ge=1)
    """Documents of a step; each makes one group."""
    rollouts_per_group: int = Field(8, ge=2)
    """Summaries sampled of each document."""
    temperature: float = Field(1.0, gt=0, le=2)
    """Sampling temperature of the rollouts; validation and benchmark are greedy."""
    words_max: int = Field(WORDS_MAX, ge=20)
    """Longest summary that can earn a reward, in words."""
    reward: Literal["questions", "ruler"] = "questions"
    """`questions` rewards the share of a document's questions that a summary answers; `ruler`
    has the judge rank a group's summaries against each other, with no golden answers."""
    in_flight: int = Field(64, ge=1)
    """Summaries that are generated or judged at the same time."""
    timeout_s: float = Field(300, gt=0)
    """Deadline of one rollout, judging included, in seconds."""
    scored_min: int = Field(3, ge=2)
    """A group with fewer scored rollouts than this is dropped."""
    unscored_share_max: float = Field(0.2, ge=0, le=1)
    """Share of a step's rollouts that may go unscored before the step fails."""

    @model_validator(mode="after")
    def _floor_fits(self) -> Self:
        if self.scored_min > self.rollouts_per_group:
            raise ValueError(
                f"scored_min is {self.scored_min}, but a group has only "
                f"{self.rollouts_per_group} rollouts: lower it, or raise rollouts_per_group"
            )
        return self


class JudgeLimits(Settings):
    """What the judge's account allows.

    `JudgeLimits(requests_per_minute=1000, tokens_per_minute=1_000_000, in_flight=32)`
    """

    requests_per_minute: int = Field(1000, ge=1)
    """Requests started in any 60 seconds."""
    tokens_per_minute: int = Field(1_000_000, ge=1000)
    """Prompt and completion tokens in any 60 seconds."""
    in_flight: int = Field(32, ge=1)
    """Requests at the same time."""
    requests_per_day: int | None = Field(None, ge=1)
    """Requests that the account allows in a day; none is known if empty. A run is not held to it,
    but its forecast says whether it suffices."""


class JudgeConfig(Settings):
    """Who answers and grades."""

    provider: Literal["lexical", "openrouter", "google", "url"] = "lexical"
    """`lexical` runs a judge on this machine, for rehearsals; `openrouter` needs
    OPENROUTER_API_KEY, `google` GEMINI_API_KEY; `url` is any OpenAI-compatible endpoint."""
    model: str = ""
    """The judge's model; empty takes the provider's default (Gemini 2.5 Flash)."""
    base_url: str = ""
    """Endpoint that ends in /v1, for provider `url`; its key is read from JUDGE_API_KEY."""
    protocol: Literal["batched", "per_question"] = "batched"
    """`batched` asks and grades all of a document's questions in two calls; `per_question` takes
    up to two calls a question, as ART's notebook does, for comparison with its table."""
    reasoning_effort: Literal["", "none", "low", "medium", "high"] = ""
    """How much the judge thinks before it answers; empty leaves that to the provider."""
    limits: JudgeLimits = JudgeLimits()
    """What the judge's account allows; of the `lexical` judge, which has none, only `in_flight`
    counts."""
    call_timeout_s: float = Field(60, gt=0)
    """Deadline of one request with its whole response, in seconds."""
    verdict_timeout_s: float = Field(240, gt=0)
    """Deadline of one verdict with all its calls and the pauses between retries, in seconds;
    waiting for a turn under `limits` does not count, so a small quota is slow but fails nothing."""
    tries_max: int = Field(6, ge=1)
    """Tries of one request before its verdict is given up as unscored."""
    backoff_s: float = Field(0.5, gt=0)
    """Pause before the second try, in seconds; it doubles with each further one, up to 60 times
    this, and is at least what the judge itself asks for."""
    hedge_quantile: float = Field(0.85, ge=0, lt=1)
    """A request slower than this share of the recent ones is asked again, once, and the first
    valid reply counts: some more requests, and far less waiting for the slowest. 0 asks nothing
    twice; nor is the `lexical` judge, or any request of RULER."""
    prices: dict[str, tuple[Usd, Usd]] = {}
    """USD for a million prompt tokens and for a million completion tokens, by model:
    `{"google/gemini-2.5-flash": [0.30, 2.50]}`; what is not here is taken from the built-in
    table."""

    @model_validator(mode="after")
    def _url_names_its_endpoint(self) -> Self:
        if self.provider == "url" and not (self.base_url and self.model):
            raise ValueError("judge provider 'url' needs base_url and model")
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            raise ValueError("judge base_url must start with http:// or https://")
        return self


class TrainerConfig(Settings):
    """What is trained, and how."""

    learning_rate: float = Field(0.02, gt=0)
    """Adam's step size."""
    epochs: int = Field(4, ge=1)
    """Passes over a step's trajectories."""
    clip_epsilon: float = Field(0.2, gt=0, lt=1)
    """Clip range of the probability ratio."""
    kl_coefficient: float = Field(0.002, ge=0)
    """Weight of the KL penalty to the untrained policy."""


class Retention(Settings):
    """Which checkpoints stay in the store; the first and the newest always do."""

    keep_last: int = Field(5, ge=1)
    """Newest checkpoints to keep."""
    keep_every: int = Field(10, ge=0)
    """Keep the checkpoint of every n-th step as well; 0 for none."""
    keep_best: int = Field(1, ge=0)
    """Keep so many with the highest validation accuracy as well."""


class RunConfig(Settings):
    """What training and benchmark of one model have in common."""

    model: Name = "rehearsal"
    """Name of the model; its checkpoints, ledger and results lie under it in the store."""
    seed: int = 1
    """Seed of the untrained policy, the batches and every sample."""
    documents: DocumentsConfig = DocumentsConfig()
    """Which documents to train on, and which to hold out."""
    rollouts: RolloutsConfig = RolloutsConfig()
    """How summaries are sampled."""
    judge: JudgeConfig = JudgeConfig()
    """Who answers and grades."""
    judge_concurrency_limit: str = ""
    """A Prefect global concurrency limit that the flows with one judge's key share: each
    takes as many of its slots as `judge.limits.in_flight`. Empty shares none."""
    store: str = Field(
        default_factory=lambda: Environment().store,
        json_schema_extra={"default": ".precis/store"},
    )
    """Folder for checkpoints, ledger and results; the variable PRECIS_STORE, or .precis/store,
    where not given."""


class TrainConfig(RunConfig):
    """A training run."""

    budget_usd: float | None = Field(None, gt=0)
    """Dollars that the run may spend in all; it stops after the step that reaches them, and
    continues where it was once given more. Empty sets no limit."""
    judge_patience_s: int = Field(900, ge=0)
    """How long a run whose judge is out waits, paused, for somebody to press Resume, in seconds;
    0 fails at once."""

    steps: int = Field(30, ge=1)
    """Steps to train; a finished run given more of them continues."""
    validate_every: int = Field(10, ge=1)
    """Steps between two validations on the held-out documents."""
    trainer: TrainerConfig = TrainerConfig()
    """What is trained, and how."""
    benchmark: bool = True
    """Whether to run the benchmark at the end."""
    retention: Retention = Retention()
    """Which checkpoints stay in the store."""
    take_over: bool = False
    """Take the model from another run that holds it, which then stops."""

    def identity(self, corpus_digest: str, judge: Mapping[str, str]) -> str:
        """Digest of what decides the result: a run can be resumed only with the same one.

        How many steps, how fast and how patiently are left out, so that they may change.

        Args:
            judge: which judge rules and how it is asked (`JudgeClient.identity`).
        """
        decisive = {
            "corpus": corpus_digest,
            "seed": self.seed,
            "rollouts": self.rollouts.model_dump(
                include={
                    "groups_per_step",
                    "rollouts_per_group",
                    "temperature",
                    "words_max",
                    "reward",
                }
            ),
            "judge": dict(judge),
            "trainer": self.trainer.model_dump(),
        }
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


class BenchmarkConfig(RunConfig):
    """A benchmark of a model's checkpoints against baselines."""

    every: int = Field(1, ge=1)
    """Take every n-th checkpoint; the first and the last are always there."""
    baselines: tuple[Baseline, ...] = ("lead-350", "random-350", "centroid")
    """Rules to compare with."""

    @classmethod
    def of(cls, run: TrainConfig) -> Self:
        """The benchmark of a training run."""
        return cls.model_validate({name: getattr(run, name) for name in RunConfig.model_fields})
