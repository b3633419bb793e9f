"""The model card: a model's base, training data and results, with intervals."""

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from precis.markdown import escape, mark_bold, table
from precis.models.adapter import claimed_base
from precis.models.base import HUB_NAME, choose_base, public_name
from precis.models.licences import licence_of
from precis.models.prompt import options_of, prompt_of
from precis.models.record import TrainingRecord
from precis.models.reference import NamedCheckpoint
from precis.records.nouns import Figure
from precis.records.results import TRAINED, newest_results
from precis.report import wording
from precis.runs.shortcomings import flattered
from precis.statistics.standings import Contender, figure_of, rows_by, summarise
from precis.text import count_of


def newest_benchmark(model: NamedCheckpoint) -> pl.DataFrame | None:
    """Return the rows of the newest benchmark of a checkpoint, on its run's held-out documents, or
    None."""
    held_out = pl.col("corpus_digest") == model.ledger.corpus
    own = (pl.col("model") == TRAINED) & (pl.col("step") == model.step)
    frame = newest_results(model.store, model.name, held_out & own).filter(held_out)
    return None if frame.is_empty() else frame


def base_of(model: NamedCheckpoint) -> str:
    """Return the name of a model's base for its card; empty for the embedded policy. Raises
    ConfigError if the adapter does not name it, or not by a model's name."""
    if model.kind == "policy":
        return ""
    if model.record:
        return public_name(model.record.base_model)
    with TemporaryDirectory() as folder:
        adapter = model.fetch(Path(folder) / "adapter")
        return public_name(choose_base("", "", claimed_base(adapter)))


def card_of(
    model: NamedCheckpoint,
    base: str,
    repo: str,
    benchmarked: pl.DataFrame | None,
) -> str:
    """Return a card in the Hub's format: metadata between dashes, then Markdown. The base is empty
    for the embedded policy."""
    chosen = flattered(model.ledger, model.step)
    sections = [
        f"---\n{_metadata(model, base)}\n---\n",
        _introduction(model, base, repo),
        _use(model),
        _training(model.record, base),
        _results(model, benchmarked),
        *([f"{chosen}\n"] if chosen else []),
        _limits(base, model.is_agent),
    ]
    return "\n".join(sections)


def _metadata(model: NamedCheckpoint, base: str) -> str:
    from huggingface_hub import ModelCardData  # a slow import

    record = model.record
    known: dict[str, Any] = {"tags": ["summarization", "grpo", "precis"], "metrics": ["accuracy"]}
    if model.is_agent:
        known = {"tags": ["agent", "tool-use", "grpo", "precis"]}
    elif record and HUB_NAME.fullmatch(record.documents):
        known["datasets"] = [record.documents]
    if not base:
        task: dict[str, Any] = {} if model.is_agent else {"pipeline_tag": "summarization"}
        return ModelCardData(**known, license="apache-2.0", **task).to_yaml()
    if HUB_NAME.fullmatch(base):
        known["base_model"] = base
        known["base_model_relation"] = "adapter"
    known |= {"library_name": "peft", "pipeline_tag": "text-generation"}
    licence = licence_of(base)
    if licence is None:
        known |= {"license": "other", "license_name": "licence-of-the-base-model"}
    elif licence.research_only:
        known |= {"license": "other", "license_name": licence.id}
        known["license_link"] = licence.research_only
    else:
        known["license"] = licence.id
    return ModelCardData(**known).to_yaml()


def _introduction(model: NamedCheckpoint, base: str, repo: str) -> str:
    record = model.record
    what = "an extractive policy, which picks sentences"
    does = (
        "It writes summaries that keep the facts: it was rewarded for how many questions about a "
        "document a judge could still answer from its summary alone, and never saw the questions."
    )
    if record and record.is_agent:
        what = "a policy that picks among the calls that tools allow"
        does = (
            f"It acts by calling the tools of {escape(record.documents)}, the environment whose "
            "reward it was trained for."
        )
    what = f"a LoRA of {base}" if base else what
    name = repo.rpartition("/")[2]
    made = model.ledger.steps[0].warm_start if model.step and model.ledger.steps else None
    steps = count_of(model.step - bool(made), "step")
    if made:
        steps += f", after imitating {made.demonstrations:,} demonstrations ({made.source})"
    origin = model.ledger.origin
    begun = f", after {origin.step} of another run, `{origin.model}`" if origin else ""
    return f"# {name}\n\n{does} It is {what}, trained by GRPO for {steps}{begun}.\n"


def _use(model: NamedCheckpoint) -> str:
    prompt = prompt_of(model.record)
    if model.kind == "policy":
        how = "Précis: `precis play AGENT.py`."
        if not model.is_agent:
            how = (
                "Précis. Put the files into a folder `checkpoints/0001/`, and "
                "`precis.rehearsal.endpoint.PolicyEndpoint` answers with them."
            )
        return f"## Use\n\n`policy.json` is the policy, for {how}\n"
    options = shlex.join(["--enable-lora", "--lora-modules", *options_of(prompt)])
    asked = (
        f"## Use\n\nvLLM serves it beside its base model (`--generation-config vllm {options}`)."
        "\n\nAsk it as it was asked in training, or it is worth little: greedily (temperature 0), "
        "with "
    )
    if model.is_agent:
        return (
            f"{asked}the prompts and tools of its agent: `precis play AGENT.py --url …` does so.\n"
        )
    system, user = prompt["messages"]
    return (
        f"{asked}these messages, in which `{prompt['document']}` is the document. "
        "They are in `prompt.json` too.\n\n"
        f"System:\n\n```text\n{system['content']}\n```\n\n"
        f"User:\n\n```text\n{user['content']}\n```\n"
    )


def _training(record: TrainingRecord | None, base: str) -> str:
    rows: list[tuple[str, str]] = []
    if base:
        licence = licence_of(base)
        rows.append(("base model", base))
        rows.append(("its licence", str(licence) if licence else "see the base model's page"))
    if record is None:
        rows.append(("settings", "not written down: the run's training.json is missing"))
        return f"## Training\n\n{table(('', ''), rows)}\n"
    split = f", split {record.documents_split}" if record.documents_split else ""
    bundled = record.documents == "bundled"
    documents = "fictional documents that come with Précis" if bundled else record.documents
    rows.append(("environment" if record.is_agent else "documents", f"{documents}{split}"))
    counts = f"{record.train_size:,} to train on, {record.val_size:,} held out"
    rows.append(("scenarios" if record.is_agent else "of these", counts))
    if not record.is_agent:
        rows.append(("summaries", f"at most {record.words_max} words"))
    if record.judge:
        rows.append(("judge", record.judge))
    rows.append(("seed", str(record.seed)))
    commit = f", commit {record.commit}" if record.commit else ""
    rows.append(("Précis", f"{record.version}{commit}"))
    return f"## Training\n\n{table(('', ''), rows)}\n"


def _results(model: NamedCheckpoint, benchmarked: pl.DataFrame | None) -> str:
    if benchmarked is None:
        told = "No benchmark and no validation of this checkpoint was made."
        if model.validation:
            score = f"{model.validation.measure}: {model.validation.score.with_interval}"
            told = f"No benchmark of this checkpoint was made. Its held-out {score}."
        return f"## Results\n\n{told}\n"
    validation = model.ledger.validations[-1] if model.ledger.validations else None
    day = f"{benchmarked['night'][0]:%Y-%m-%d}"
    is_share = not model.is_agent or validation is None or validation.score.is_share
    words = wording.Words(is_share=is_share)
    rows = []
    for standing in summarise(benchmarked):
        is_this = standing.contender == Contender(TRAINED, model.step)
        name = "this model" if is_this else str(standing.contender)
        cells = [name, "not scored", ""]
        if standing.accuracy:
            cells = [name, words.figure(standing.accuracy.mean), words.bounds(standing.accuracy)]
        if is_this:
            cells[:2] = [mark_bold(cell, [(0, len(cell))]) for cell in cells[:2]]
        if not model.is_agent:
            own = rows_by(benchmarked, standing.contender)
            cells.append(wording.number(figure_of(own, Figure("words", "words"))))
            cells.append(wording.percent(figure_of(own, Figure("over length", "over_length"))))
        unscored = sum(standing.unscored.values())
        cells.append(f"{standing.documents}{f', {unscored} unscored' if unscored else ''}")
        rows.append(cells)
    if model.is_agent:
        measure = validation.measure if validation else "score"
        heads = ["contender", measure, "95 % interval", "scenarios"]
        told = f"Each contender attempted the same held-out scenarios, once and greedily, {day}."
        return f"## Results\n\n{told}\n\n{table(heads, rows)}\n"
    judge = f"{benchmarked['judge'][0]} ({benchmarked['protocol'][0]})"
    heads = ["contender", "accuracy", "95 % interval", "words", "over length", "documents"]
    origin = model.ledger.origin
    unseen = "on documents that were never trained on"
    if origin and origin.corpus != model.ledger.corpus:
        unseen = "on held-out documents, some of which the run before may have trained on"
    return (
        "## Results\n\nAccuracy is the share of the answerable questions that the judge answered "
        f"rightly from the summary alone, as far as it is prose and within the limit, {unseen}; "
        f"the interval is a bootstrap over documents. Judge: {judge}, {day}.\n\n"
        f"{table(heads, rows)}\n"
    )


def _limits(base: str, is_agent: bool) -> str:
    licence = licence_of(base)
    commerce = ""
    if licence and licence.research_only:
        commerce = f" The base model's licence allows no commercial use: {licence.research_only}"
    if is_agent:
        held = "The figures hold for scenarios and tools like those of the benchmark."
    else:
        held = (
            "A summary leaves things out, and may be wrong. The figures hold for documents and "
            "questions like those of the benchmark, and for that judge."
        )
    return f"## Limits\n\n{held}{commerce}\n"
