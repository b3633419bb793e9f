"""Every setting of every flow: frozen models that Prefect's UI shows as forms.

The sentence under a field is its help in the UI and in the docs. Units are in the names.
Secrets are not settings: they are read from the environment (`precis.environment`).
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from precis.environment import StoreUrl, Variables
from precis.record import (
    STEPS_MAX,
    Amount,
    BoundedFloat,
    BoundedInt,
    Name,
    Record,
    Seed,
    json_digest,
)
from precis.settings.cluster import ClusterConfig
from precis.settings.environment import EnvironmentSettings, PythonSettings, SummariesSettings
from precis.settings.identity import ByIdentity, Decides, MayChange, decisive_settings
from precis.settings.problems import check_hosted, refuse_password
from precis.settings.trainer import TOOL_CALL_FEATURES, ExtractiveTrainer, Trainer
from precis.text import WORDS_MAX

Hosted = Literal[
    "gpt-4o",
    "gpt-4.1",
    "o4-mini",
    "gemini-2.5-pro",
    "claude-sonnet-4",
    "gpt-5.2",
    "gpt-5-mini",
    "gemini-3-pro",
    "claude-sonnet-4.5",
]
"""Hosted models, by their names in `precis.benchmark.contender`."""


class DocumentSource(Record):
    """The source of documents and their questions."""

    source: str = "bundled"
    """`bundled`, a data set on the Hub (`ServiceNow/repliqa`), or a parquet, JSONL or CSV file
    or folder with RepLiQA's columns."""
    hub_split: str = "repliqa_0"
    """The split to read when `source` is on the Hub."""


class OtherDocuments(DocumentSource):
    """Documents for a benchmark only."""

    count: BoundedInt | None = Field(None, ge=1)
    """How many to take, drawn by `seed`; empty takes all."""
    seed: Seed = 1
    """Seed of the draw."""


class DocumentsConfig(DocumentSource):
    """The documents to train on, and those to hold out."""

    train_size: BoundedInt = Field(
        default_factory=lambda: Variables().train_size, ge=1, examples=[3500]
    )
    """Documents to train on; by default the variable TRAIN_SIZE, or 3500."""
    val_size: BoundedInt = Field(default_factory=lambda: Variables().val_size, ge=1, examples=[91])
    """Documents held out for validation and the benchmark; by default the variable VAL_SIZE, or
    91."""
    seed: Seed = 1
    """Seed of the split."""


class RolloutsConfig(Record):
    """The sampling of a step, and the treatment of unscored rollouts."""

    groups_per_step: Decides[BoundedInt] = Field(5, ge=1)
    """Scenarios per step; each makes one group."""
    rollouts_per_group: Decides[BoundedInt] = Field(8, ge=2)
    """Rollouts per scenario."""
    replacements_max: Decides[BoundedInt] = Field(0, ge=0)
    """Further scenarios that a step may take in place of those whose rollouts all earn the same
    (DAPO's dynamic sampling). Each costs as much as any other; 0 takes none."""
    temperature: Decides[float] = Field(1.0, gt=0, le=2)
    """Sampling temperature of the rollouts; validation and benchmark are greedy. Updates are
    computed at temperature 1, as in ART, whatever this is."""
    words_max: Decides[BoundedInt] = Field(WORDS_MAX, ge=20)
    """Longest summary that can earn a reward, in words; of summaries alone."""
    length_ramp: Decides[float] = Field(0.0, ge=0, le=1)
    """Share of `words_max` over which a reward in training falls to 0: with 0.1 a summary of 315 of
    350 words earns all of it, one of 332 words half. 0 leaves the hard limit, which validation and
    benchmark always have."""
    reward: Decides[Literal["questions", "ruler"]] = "questions"
    """`questions` rewards the share of a document's questions that a summary answers; `ruler`
    has the judge rank a group's summaries against each other, with no golden answers."""
    in_flight: MayChange[BoundedInt] = Field(64, ge=1)
    """Rollouts that are sampled or scored at the same time."""
    timeout_s: MayChange[BoundedFloat] = Field(300, gt=0)
    """Deadline of one rollout, in seconds; for the judge of summaries see
    `judge.verdict_timeout_s`."""
    turns_max: Decides[BoundedInt] = Field(50, ge=1)
    """Most calls to the model in one rollout."""
    tokens_max: Decides[BoundedInt] = Field(8192, ge=1)
    """Most tokens that one rollout may sample, over all its calls. Once they are spent no further
    call is answered; concurrent calls may each take the rest."""
    scored_min: MayChange[BoundedInt] = Field(3, ge=2)
    """A group with fewer scored rollouts than this is dropped."""
    unscored_share_max: MayChange[float] = Field(0.2, ge=0, le=1)
    """Share of a step's rollouts that may go unscored before the step fails."""

    @model_validator(mode="after")
    def _floor_fits(self) -> Self:
        if self.scored_min > self.rollouts_per_group:
            raise ValueError(
                f"scored_min is {self.scored_min}, but a group has only "
                f"{self.rollouts_per_group} rollouts: lower it, or raise rollouts_per_group"
            )
        return self


class RateLimits(Record):
    """The limits of the judge's account.

    `RateLimits(requests_per_minute=1000, tokens_per_minute=1_000_000, in_flight=32)`
    """

    requests_per_minute: BoundedInt = Field(1000, ge=1)
    """Requests started in any 60 seconds."""
    tokens_per_minute: BoundedInt = Field(1_000_000, ge=1000)
    """Prompt and completion tokens in any 60 seconds."""
    in_flight: BoundedInt = Field(32, ge=1)
    """Requests at the same time."""
    requests_per_day: BoundedInt | None = Field(None, ge=1)
    """Requests that a judge's account allows in a day; empty if unknown. It does not limit a run,
    but its forecast reports whether it suffices."""


class JudgeConfig(Record):
    """The judge: the model that answers and grades."""

    provider: Decides[Literal["lexical", "openrouter", "google", "url"]] = "lexical"
    """`lexical` runs a judge on this machine, for rehearsals; `openrouter` needs
    OPENROUTER_API_KEY, `google` GEMINI_API_KEY; `url` is any OpenAI-compatible endpoint."""
    model: Decides[str] = ""
    """The judge's model; empty means the provider's default (Gemini 2.5 Flash)."""
    base_url: MayChange[str] = ""
    """Endpoint that ends in /v1, for provider `url`; its key is read from JUDGE_API_KEY, and a
    second judge's from SECOND_JUDGE_API_KEY."""
    protocol: Decides[Literal["batched", "per_question"]] = "batched"
    """`batched` asks and grades all of a document's questions in two calls; `per_question` takes
    up to two calls a question, as ART's notebook does, for comparison with its table."""
    reasoning_effort: MayChange[Literal["", "none", "low", "medium", "high"]] = ""
    """The judge's reasoning effort; empty leaves it to the provider."""
    limits: MayChange[RateLimits] = RateLimits()
    """The limits of the judge's account; for the `lexical` judge, which has none, only `in_flight`
    applies."""
    call_timeout_s: MayChange[BoundedFloat] = Field(60, gt=0)
    """Deadline of one request with its whole response, in seconds."""
    verdict_timeout_s: MayChange[BoundedFloat] = Field(240, gt=0)
    """Deadline of one verdict with all its calls and pauses, in seconds. Waiting under `limits`
    does not count, so a small quota only makes a run slower."""
    tries_max: MayChange[BoundedInt] = Field(6, ge=1)
    """Attempts of one request before its verdict becomes unscored."""
    backoff_s: MayChange[BoundedFloat] = Field(0.5, gt=0)
    """Pause before the second try, in seconds; it doubles with each further one, up to 60 times
    this, and is at least the judge's own Retry-After."""
    hedge_quantile: MayChange[BoundedFloat] = Field(0.85, ge=0, lt=1)
    """A request or a verdict that takes longer than this share of the recent ones is sent again,
    once, and the first valid reply counts. 0 disables this. It does not apply to the `lexical`
    judge and RULER."""
    prices: MayChange[dict[str, tuple[Amount, Amount]]] = Field({})
    """USD for a million prompt tokens and for a million completion tokens, by model:
    `{"google/gemini-2.5-flash": [0.30, 2.50]}`; other models' prices come from the built-in
    table."""

    @model_validator(mode="after")
    def _url_names_its_endpoint(self) -> Self:
        if self.provider == "url" and not (self.base_url and self.model):
            raise ValueError("judge provider 'url' needs base_url and model")
        if self.provider == "lexical" and self.model:
            raise ValueError(
                "judge provider 'lexical' is one judge on this machine: set provider to "
                "openrouter, google or url, or leave model empty"
            )
        check_hosted(self.provider, self.base_url, "judge", "JUDGE_API_KEY")
        return self


class Retention(Record):
    """The checkpoints to keep in the store; the first and the newest are always kept."""

    keep_last: BoundedInt = Field(5, ge=1)
    """Newest checkpoints to keep."""
    keep_every: BoundedInt = Field(10, ge=0)
    """Also keep the checkpoint of every n-th step; 0 for none."""
    keep_best: BoundedInt = Field(1, ge=0)
    """Also keep this many with the highest validation accuracy."""


class ContenderConfig(Record):
    """A model to compare with, behind an OpenAI-compatible endpoint."""

    model: str = Field(min_length=1)
    """Its name at the endpoint, such as `openai/gpt-4o`."""
    name: str = ""
    """Its name in the results; empty takes the model's name without its vendor."""
    provider: Literal["openrouter", "openai", "url"] = "openrouter"
    """`openrouter` needs OPENROUTER_API_KEY, `openai` OPENAI_API_KEY; `url` is any endpoint."""
    base_url: str = ""
    """Endpoint that ends in /v1, for provider `url`; its key is read from CONTENDER_API_KEY."""
    reasoning: bool = False
    """True for a reasoning model: its requests have no temperature, and room for reasoning
    tokens."""
    reasoning_effort: Literal["", "none", "minimal", "low", "medium", "high"] = ""
    """Its reasoning effort; empty leaves it to the provider."""
    thinking_tokens_max: BoundedInt = Field(8192, ge=0)
    """Most reasoning tokens in each call, on top of those of the answer."""
    prices: tuple[Amount, Amount] | None = None
    """USD for a million prompt tokens and for a million completion tokens, where a reply does not
    state its cost; empty takes the built-in table's."""
    limits: RateLimits = RateLimits(in_flight=8)
    """The limits of the account for this model."""
    call_timeout_s: BoundedFloat = Field(180, gt=0)
    """Deadline of one request with its whole response, in seconds."""
    rollout_timeout_s: BoundedFloat = Field(600, gt=0)
    """Deadline of one rollout with all its calls, attempts, pauses and its scoring, in seconds."""
    tries_max: BoundedInt = Field(6, ge=1)
    """Attempts of one request before its rollout becomes unscored."""
    backoff_s: BoundedFloat = Field(1.0, gt=0)
    """Pause before the second try, in seconds; it doubles with each further one."""

    @model_validator(mode="after")
    def _url_is_one(self) -> Self:
        name = f"contender {self.model!r}"
        check_hosted(self.provider, self.base_url, name, "CONTENDER_API_KEY")
        return self

    @property
    def called(self) -> str:
        """Its name in the results."""
        return self.name or self.model.rpartition("/")[2]


class RunConfig(Record):
    """The settings that training and benchmark of one model have in common."""

    model: MayChange[Name] = "rehearsal"
    """Name of the model, of letters, digits, dots, dashes and underscores; its checkpoints, ledger
    and results are under it in the store."""
    seed: Decides[Seed] = 1
    """Seed of the untrained policy, the batches and every sample."""
    environment: Decides[EnvironmentSettings] = SummariesSettings()
    """The task that the policy is trained for: `summaries`, the path of a Python file with
    `scenarios` and `rollout`, or the settings of another kind."""
    documents: ByIdentity[DocumentsConfig] = Field(default_factory=DocumentsConfig)
    """The documents to train on, and those to hold out; only for summaries."""
    trainer: Decides[Trainer] = ExtractiveTrainer()
    """The kind of policy that is trained, and the settings of its training."""
    cluster: MayChange[ClusterConfig] = ClusterConfig()
    """The machine that the trainer runs on."""
    rollouts: Decides[RolloutsConfig] = RolloutsConfig()
    """The sampling of rollouts."""
    recoveries_max: MayChange[BoundedInt] = Field(5, ge=0)
    """How many times in a row, without a committed step in between, a lost trainer is restarted
    before the run stops; in a benchmark, how many times in all."""
    judge: ByIdentity[JudgeConfig] = JudgeConfig()
    """The judge: the model that answers and grades."""
    judge_concurrency_limit: MayChange[str] = ""
    """A Prefect global concurrency limit shared by the flows that use one judge's key: each takes
    `judge.limits.in_flight` of its slots. Empty for none."""
    store: MayChange[StoreUrl] = Field("", validate_default=True)
    """Folder or s3://bucket/prefix for checkpoints, ledger and results; empty means the variable
    PRECIS_STORE, or else .precis/store."""

    @model_validator(mode="before")
    @classmethod
    def _take_the_agents_policy(cls, given: Any) -> Any:
        """Default to the embedded policy of agents for an agent without a trainer."""
        if not isinstance(given, dict):
            return given
        trainer = given.get("trainer") if "trainer" in given else {}
        if not isinstance(trainer, dict) or "kind" in trainer:
            return given
        named = given.get("environment")
        kind = named.get("kind") if isinstance(named, dict) else getattr(named, "kind", named)
        if kind in (None, "summaries"):
            return given
        return {**given, "trainer": {"kind": "tool_calls", **trainer}}

    @model_validator(mode="after")
    def _environment_fits(self) -> Self:
        environment = self.environment.kind
        trainer = self.trainer.kind
        if environment != "summaries" and trainer == "extractive":
            raise ValueError(
                "trainer.kind is 'extractive', whose policy picks sentences of documents: give "
                f"environment.kind {environment!r} another trainer, such as 'tool_calls'"
            )
        if environment == "summaries" and trainer == "tool_calls":
            raise ValueError(
                "trainer.kind is 'tool_calls', whose policy writes no text: give summaries another "
                "trainer, such as 'extractive'"
            )
        asked = self.rollouts.turns_max
        if self.environment.kind == "textarena" and self.environment.moves_max > asked:
            raise ValueError(
                f"environment.moves_max is {self.environment.moves_max}, but a rollout may ask the "
                f"model {asked} times: lower it, or raise rollouts.turns_max"
            )
        return self

    @model_validator(mode="after")
    def _rented_machine_fits(self) -> Self:
        cluster = self.cluster
        trainer = self.trainer
        if cluster.where == "local":
            return self
        if trainer.kind in ("serverless", "tinker"):
            raise ValueError(
                f"trainer.kind {trainer.kind!r} needs no machine of ours: leave cluster.where local"
            )
        if trainer.kind == "art" and cluster.gpus < trainer.engine.gpus:
            raise ValueError(
                f"trainer.engine.gpus is {trainer.engine.gpus}, but cluster.gpu {cluster.gpu} "
                f"rents {cluster.gpus}: set cluster.gpu to {cluster.gpu_name}:{trainer.engine.gpus}"
            )
        if not self.store.startswith("s3://"):
            raise ValueError(
                f"cluster.where is 'sky', but a rented machine can't reach the store {self.store}: "
                "give one at s3://bucket/prefix (PRECIS_STORE)"
            )
        return self

    def without_summaries_settings(self, given: Mapping[str, bool]) -> Self:
        """Refuse settings of summaries for any other task; `given` maps each to whether it is
        set."""
        for name, is_given in given.items():
            if is_given and self.environment.kind != "summaries":
                raise ValueError(
                    f"{name} is a setting of summaries: leave it out with environment.kind "
                    f"{self.environment.kind!r}"
                )
        return self


class FromCheckpoint(Record):
    """A checkpoint of another run, to begin a new one from."""

    model: Decides[Name]
    """The other run's model."""
    step: Decides[BoundedInt | None] = Field(None, ge=0)
    """Its step; empty takes the newest whole checkpoint."""
    store: Decides[str] = ""
    """The store that it is in: a folder or s3://bucket/prefix; empty is the run's own store."""


class WarmStartConfig(Record):
    """Supervised training on good rollouts, before the first step of reinforcement learning."""

    source: Decides[Literal["best_of_n", "teacher", "file"]] = "best_of_n"
    """The source of the demonstrations: `best_of_n` takes the best of the policy's own rollouts of
    a scenario; `teacher` asks another model; `file` reads them."""
    scenarios: Decides[BoundedInt | None] = Field(None, ge=1)
    """Training scenarios to set apart, which no step draws; empty takes 200, or a quarter of them
    if that is fewer. For a file, how many demonstrations to take from its start; empty takes
    all."""
    samples: Decides[BoundedInt] = Field(8, ge=2)
    """Rollouts per scenario, for source `best_of_n`."""
    teacher: ByIdentity[ContenderConfig | None] = None
    """The other model, for source `teacher`; the store keeps its answers, so that each is paid for
    once."""
    file: ByIdentity[str] = ""
    """A file of demonstrations, for source `file`. For an agent, JSONL with `messages` and `tools`
    of a rollout a line, as in OpenAI's API; for summaries, parquet or JSONL with `summary` and the
    document's `document_id` or `text`, or both."""
    epochs: Decides[BoundedInt] = Field(2, ge=1)
    """Passes over the demonstrations."""
    batch_size: Decides[BoundedInt] = Field(4, ge=1)
    """Demonstrations per update."""
    learning_rate: Decides[BoundedFloat | None] = Field(None, gt=0)
    """Adam's highest step size: it rises over the first tenth of the updates, and falls to 0 over
    the rest. Empty takes the trainer's default: 2e-4 for an adapter, 0.02 for the embedded
    policy."""
    measured_scenarios: MayChange[BoundedInt] = Field(20, ge=1)
    """Scenarios sampled before and after the warm start, to measure how many groups have differing
    rewards: only those can be learned from."""

    @model_validator(mode="after")
    def _source_has_what_it_needs(self) -> Self:
        for source, given in (("teacher", self.teacher), ("file", self.file)):
            if (self.source == source) != bool(given):
                raise ValueError(
                    f"warm_start source {source!r} and the setting `{source}` belong together: "
                    "give both, or neither"
                )
        return self

    def identity(self, shown: str) -> dict[str, Any]:
        """Return the settings that determine the result, independent of where files are. `shown` is
        the digest of the file's demonstrations."""
        decisive = decisive_settings(self)
        if self.teacher is not None:
            asked = {"model", "base_url", "reasoning", "reasoning_effort", "thinking_tokens_max"}
            decisive["teacher"] = self.teacher.model_dump(include=asked)
        if self.file:
            decisive["shown"] = shown
        return decisive


class TrainConfig(RunConfig):
    """A training run."""

    budget_usd: MayChange[BoundedFloat | None] = Field(None, gt=0)
    """Dollars that the run may spend in all. It stops after the step that reaches them, and
    continues with a higher budget. Empty for no limit."""
    judge_patience_s: MayChange[BoundedInt] = Field(900, ge=0)
    """How long a run waits, paused, for Resume when its judge is unreachable, in seconds; 0 fails
    at once."""

    ceiling_min: MayChange[float] = Field(0.2, ge=0, le=1)
    """Least ceiling of the reward, if the environment measures one (for summaries the share of the
    questions that the judge answers from the full documents): below it the run stops before
    training. 0 disables this."""

    steps: MayChange[int] = Field(30, ge=1, le=STEPS_MAX)
    """Steps to train; a finished run continues if this is raised."""
    off_policy_steps: Decides[int] = Field(0, ge=0, le=1)
    """With 1, a step is sampled while the previous one is trained, from that step's adapter: one
    step stale, which importance weights correct for. It needs two GPUs (`trainer.engine.gpus` 2),
    or the embedded policy. With 0 each step is sampled from its own adapter."""
    validate_every: MayChange[BoundedInt] = Field(10, ge=1)
    """Steps between validations on the held-out scenarios."""
    patience: MayChange[BoundedInt] = Field(0, ge=0)
    """Stop after this many validations in a row without a gain beyond chance, paired over the
    held-out scenarios; the best checkpoint is then the run's. The validation right after a warm
    start does not count. 0 disables this."""
    second_judge: MayChange[JudgeConfig | None] = Field(None, title="Second Judge")
    """Another judge, which scores every validation too, without effect on the reward. If the two
    diverge, the policy is learning to please the first. Empty for none."""
    benchmark: MayChange[bool] = True
    """Run the benchmark at the end; if off, the automations, where they are active, start it."""
    retention: MayChange[Retention] = Retention()
    """The checkpoints to keep in the store."""
    from_checkpoint: Decides[FromCheckpoint | None] = Field(None, title="From Checkpoint")
    """Begin with another run's checkpoint instead of the untrained policy."""
    warm_start: Decides[WarmStartConfig | None] = Field(None, title="Warm Start")
    """Begin with supervised training as step 0, which counts as one of `steps`: `{}` imitates the
    best of the policy's own rollouts. Empty begins with reinforcement learning."""
    take_over: MayChange[bool] = False
    """Take the model from another run that holds it, which then stops."""

    @model_validator(mode="after")
    def _only_summaries_have_judges(self) -> Self:
        given = {
            "second_judge": self.second_judge is not None,
            "rollouts.reward 'ruler'": self.rollouts.reward == "ruler",
        }
        return self.without_summaries_settings(given)

    @model_validator(mode="after")
    def _checkpoints_fit(self) -> Self:
        if self.patience and not self.retention.keep_best:
            raise ValueError(
                "patience ends with the best checkpoint, which retention.keep_best 0 deletes: set "
                "keep_best to 1 or more"
            )
        origin = self.from_checkpoint
        if origin and origin.model == self.model and origin.store in ("", self.store):
            raise ValueError(
                f"from_checkpoint names the run's own model {self.model!r}: give the new run "
                "another name, or go back with `precis runs restart`"
            )
        return self

    @model_validator(mode="after")
    def _samples_while_it_trains(self) -> Self:
        trainer = self.trainer
        if not self.off_policy_steps:
            return self
        if trainer.kind not in ("extractive", "art"):
            raise ValueError(
                "off_policy_steps 1 needs a trainer of kind 'extractive' or 'art': set it to 0 for "
                f"trainer.kind {trainer.kind!r}"
            )
        if trainer.kind == "art" and trainer.engine.gpus == 1:
            raise ValueError(
                "off_policy_steps 1 samples while it trains, and trainer.engine.gpus is 1: set "
                "that to 2 (and sleep_while_training to false), or off_policy_steps to 0"
            )
        if self.retention.keep_last == 1:
            raise ValueError(
                "off_policy_steps 1 continues from the two newest checkpoints, of which "
                "retention.keep_last 1 keeps one: set keep_last to 2 or more"
            )
        return self

    @model_validator(mode="after")
    def _warm_start_fits(self) -> Self:
        if self.warm_start is not None and self.trainer.kind == "serverless":
            raise ValueError(
                "warm_start needs a trainer of kind 'extractive', 'art' or 'tinker': W&B's "
                "serverless trainer imitates nothing here"
            )
        return self

    def validates(self, step: int) -> bool:
        """Return whether adapter `step` is validated: every so many steps, after a warm start, and
        at the end."""
        is_warm = self.warm_start is not None and step == 1
        return is_warm or step % self.validate_every == 0 or step >= self.steps

    def count_validations(self, first: int) -> int:
        """Return how many adapters from `first` on are validated."""
        return sum(map(self.validates, range(first, self.steps + 1)))

    def identity(self, corpus_digest: str, judge: Mapping[str, str], shown: str = "") -> str:
        """Return the digest of the settings that determine the result, which a resumed run must
        match.

        Settings that may change during a run, such as its length, concurrency and timeouts, are
        left out: each setting is marked (`precis.settings.identity`). Documents and judge enter by
        their content, not by their address.

        Args:
            judge: the judge's model and protocol (`JudgeClient.identity`).
            shown: digest of the warm start's demonstrations (`WarmStart.digest`).
        """
        decisive = {"corpus": corpus_digest, "judge": dict(judge), **decisive_settings(self)}
        if self.warm_start is not None:
            decisive["warm_start"] = self.warm_start.identity(shown)
        if self.trainer.kind == "tool_calls":
            decisive["features"] = TOOL_CALL_FEATURES
        return json_digest(decisive)


class ManagedConfig(TrainConfig):
    """A training run as a SkyPilot managed job, which rents the machine for flow and trainer."""

    prefect_api_url: MayChange[str] = ""
    """Address of the Prefect server from the rented machine, ending in /api; empty takes this
    machine's PREFECT_API_URL, which then must not be on the loopback."""

    @model_validator(mode="after")
    def _rents_a_machine(self) -> Self:
        if self.cluster.where != "sky":
            raise ValueError(
                "a managed job rents its machine: set cluster.where to 'sky', or take another "
                "deployment"
            )
        refuse_password(self.prefect_api_url, "prefect_api_url", "PREFECT_API_AUTH_STRING")
        return self

    def on_its_machine(self) -> TrainConfig:
        """Return the run's settings on the rented machine, where the trainer is beside the flow."""
        given = {name: getattr(self, name) for name in TrainConfig.model_fields}
        given["cluster"] = self.cluster.model_copy(update={"where": "local"})
        if isinstance(self.environment, PythonSettings):
            given["environment"] = self.environment.on_its_machine()
        return TrainConfig.model_validate(given)


OF_A_RUN = RunConfig.model_fields.keys() - {"model", "store"}
"""The settings of a benchmark that default to those of its model's run."""


class BenchmarkConfig(RunConfig):
    """A benchmark of a model's checkpoints against hosted models and baselines.

    Settings shared with training default to those of the model's run.
    """

    test_documents: OtherDocuments | None = Field(None, title="Test Documents")
    """Documents to benchmark on in place of the held-out ones of `documents`, which are the
    default."""
    checkpoints: Literal["every", "ends", "last", "none"] = "every"
    """The checkpoints to measure: `every` n-th with the first and the last, the `ends` (the
    untrained base and the newest), the `last` alone, or `none`."""
    every: BoundedInt = Field(1, ge=1)
    """Take every n-th checkpoint; the first and the last are always included."""
    baselines: tuple[str, ...] | None = None
    """Baselines to compare with: for summaries `lead-350`, `random-350`, `centroid`,
    `telegraph-350` and `empty`; for agents `random`, which picks any call that the tools allow, and
    those of their file. By default the environment's usual ones; `[]` for none."""
    attempts: int = Field(1, ge=1, le=64)
    """Attempts at each held-out scenario, only for agents with successes. 1 is the greedy attempt,
    by which contenders are ranked. With more, that many are also sampled at `rollouts.temperature`,
    and pass@1, 2, 4 … are estimated from those."""
    extractive: str = ""
    """Name of a rehearsed model in the same store, trained on the same documents; its newest
    checkpoint takes part as `extractive`. Empty for none."""
    hosted: tuple[Hosted, ...] = ()
    """Hosted models to compare with, through OpenRouter (OPENROUTER_API_KEY)."""
    contenders: tuple[ContenderConfig, ...] = ()
    """Other models to compare with, behind any OpenAI-compatible endpoint."""
    dollars_max: BoundedFloat | None = Field(None, gt=0)
    """Most dollars for contenders and scoring in one benchmark. The rest goes unscored, for a later
    benchmark. Empty for no limit."""
    compare_nights: BoundedInt = Field(7, ge=0)
    """How many earlier benchmarks of the model to compare with; 0 for none."""

    @model_validator(mode="after")
    def _only_summaries_have_documents(self) -> Self:
        given = {
            "test_documents": self.test_documents is not None,
            "extractive": bool(self.extractive),
        }
        return self.without_summaries_settings(given)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        baselines = ("random",) if self.baselines is None else self.baselines
        rules = ("trained", "extractive", *baselines, *self.hosted)
        names = [*rules, *(one.called for one in self.contenders)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"two contenders are called {', '.join(twice)}: give one of them another name"
            )
        return self

    @classmethod
    def of(cls, run: TrainConfig) -> Self:
        """Return the benchmark of a training run.

        For an agent only validated checkpoints take part: playing every checkpoint's games would
        take as long as the training.
        """
        given = {name: getattr(run, name) for name in RunConfig.model_fields}
        if run.environment.kind != "summaries":
            given["every"] = run.validate_every
        return cls.model_validate(given)
