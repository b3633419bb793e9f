"""The record of a model's training, kept beside its checkpoints for its users.

The ledger has digests of a run's settings; this has those that a user of the model needs, in plain
text. It has no secrets, and resuming a run does not read it.
"""

import logging
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from precis import __version__
from precis.config import RunConfig
from precis.record import BaseModelName, Record
from precis.settings.environment import CommandSettings, PythonSettings, label_of
from precis.settings.tinker import TinkerTrainer
from precis.settings.trainer import ArtTrainer
from precis.store import Store
from precis.version import code_commit

_log = logging.getLogger(__name__)


class TrainingRecord(Record):
    """The base and data of a trained model, its limits and judge, and the code that trained it."""

    model_config = ConfigDict(extra="ignore")  # a newer version may have written more

    base_model: BaseModelName
    """ART's name of the base model."""
    environment: str = "summaries"
    """The kind of its environment; any other than `summaries` is an agent."""
    tool_call_parser: str = "hermes"
    """vLLM's parser of its tool calls."""
    enable_thinking: bool | None = None
    """The option of its chat template in training; None without one."""
    words_max: int
    """The word limit in the policy's prompt; only for summaries."""
    tokens_max: int | None = None
    """Longest prompt and summary together, in tokens; None without a limit."""
    documents: str
    """The source of its training data: `bundled`, a data set on the Hub, or a file's name, for an
    agent its environment's."""
    documents_split: str = ""
    """The split of a data set on the Hub."""
    train_size: int
    """Documents or scenarios to train on."""
    val_size: int
    """Documents or scenarios held out."""
    seed: int
    """Seed of the run."""
    judge: str
    """The judge: the model and its provider; empty without one."""
    version: str
    """The version of Précis."""
    commit: str = ""
    """The commit of Précis' source, if a checkout."""

    @property
    def is_agent(self) -> bool:
        """True if the model is an agent, not a summarizer."""
        return self.environment != "summaries"


def training_record(
    config: RunConfig, judge: str, scenarios: tuple[int, int] = (0, 0)
) -> TrainingRecord:
    """Build the record from a run's settings, its judge, and the numbers of an agent's training and
    held-out scenarios."""
    trainer = config.trainer
    environment = config.environment
    tokens_max, parser, thinking = None, "hermes", None
    if isinstance(trainer, ArtTrainer):
        tokens_max, parser = trainer.engine.tokens_max, trainer.engine.tool_call_parser
    elif isinstance(trainer, TinkerTrainer):
        tokens_max, thinking = trainer.tokens_max, False
    split = ""
    train_size, val_size = scenarios
    if environment.kind == "summaries":
        source = config.documents.source
        train_size, val_size = config.documents.train_size, config.documents.val_size
        if source != "bundled" and not Path(source).expanduser().exists():
            split = config.documents.hub_split
        else:
            source = Path(source).name  # without its path on a user's machine
    elif isinstance(environment, PythonSettings):
        source = Path(environment.file).name
    elif isinstance(environment, CommandSettings):
        source = Path(environment.command[0]).name
    else:
        source = label_of(environment)
    return TrainingRecord(
        base_model=trainer.base_model,
        environment=environment.kind,
        tool_call_parser=parser,
        enable_thinking=thinking,
        words_max=config.rollouts.words_max,
        tokens_max=tokens_max,
        documents=source,
        documents_split=split,
        train_size=train_size,
        val_size=val_size,
        seed=config.seed,
        judge=f"{judge} ({config.judge.provider})" if judge else "",
        version=__version__,
        commit=code_commit(),
    )


def record_key(model: str) -> str:
    """Return the key in the store of a model's record."""
    return f"{model}/training.json"


def write_record(store: Store, model: str, record: TrainingRecord) -> None:
    """Write the record of a run, over an earlier one with other documents or code."""
    data = record.model_dump_json(indent=1).encode()
    present = store.get(record_key(model))
    if present is None or present.data != data:
        store.put(record_key(model), data)


def read_record(store: Store, model: str) -> TrainingRecord | None:
    """Return the record of a run; None without a readable one."""
    blob = store.get(record_key(model))
    if blob is None:
        return None
    try:
        return TrainingRecord.model_validate_json(blob.data)
    except ValidationError as error:
        _log.warning("%s/%s can't be read: %s", store.url, record_key(model), error)
        return None
