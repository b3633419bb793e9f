"""What each setting of a rehearsal's training does: one changed at a time, over several seeds.

    python bench/tuning.py [--seeds 5] [--processes 2] [--only scale_rewards]

Trains as a rehearsal does, but in process (`bench/reading/trial.py`), which is cheaper. A row is
compared with the defaults seed by seed; the intervals are Student's over seeds.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from statistics import fmean
from typing import Annotated, Any

import typer

from bench.reading.trial import Outcome, train, untrained
from precis.config import DocumentsConfig, TrainConfig
from precis.records.documents import Corpus, load_corpus
from precis.sweep.ranking import interval_over_seeds
from precis.sweep.trials import describe, nest

Changes = Mapping[str, Any]

_DOCUMENTS = {"source": "bundled", "train_size": 160, "val_size": 32, "seed": 1}
_RATE = "trainer.learning_rate"
_GROUPS = "rollouts.groups_per_step"
_SAMPLES = "rollouts.rollouts_per_group"
SETTINGS: Sequence[Changes] = (
    {},
    {"trainer.scale_rewards": False},
    {"rollouts.length_ramp": 0.1},
    *({_RATE: rate} for rate in (0.005, 0.01, 0.05, 0.1)),
    {_GROUPS: 10, _SAMPLES: 4},
    {_GROUPS: 3, _SAMPLES: 13},
    {"steps": 15, _GROUPS: 10},
    {"steps": 15, _SAMPLES: 16},
    {"steps": 60, _SAMPLES: 4},
    *({"trainer.epochs": epochs} for epochs in (1, 8)),
    {"trainer.kl_coefficient": 0.0},
    {"rollouts.temperature": 0.7},
    {"off_policy_steps": 1},
    {"steps": 60},
)
"""All but the last have about as many verdicts as the defaults, 1,200."""
_HEAD = "settings | accuracy | over the defaults | second judge | words | flat groups | verdicts"


def main(
    seeds: Annotated[int, typer.Option(min=2, help="Trainings of each setting.")] = 5,
    processes: Annotated[int, typer.Option(min=1, help="Trainings at the same time.")] = 2,
    only: Annotated[str, typer.Option(help="Those settings alone that have this in them.")] = "",
) -> None:
    """Print a table of all settings as markdown, the defaults first, each row once it is there."""
    print(f"| {_HEAD} |")
    print("| --- " * len(_HEAD.split("|")) + "|", flush=True)
    start = [untrained(_config({}, seed), _corpus()) for seed in range(1, seeds + 1)]
    print(f"| {' | '.join(_row('untrained', start))} |", flush=True)
    tried = [one for one in SETTINGS if not one or only in describe(one)]
    jobs = [(changes, seed) for changes in tried for seed in range(1, seeds + 1)]
    with ProcessPoolExecutor(processes) as pool:
        outcomes = pool.map(_train, jobs)
        defaults: list[Outcome] = []
        for changes in tried:
            found = list(islice(outcomes, seeds))
            defaults = defaults or found
            name = f"`{describe(changes)}`" if changes else "the defaults"
            print(f"| {' | '.join(_row(name, found, defaults))} |", flush=True)


def _train(job: tuple[Changes, int]) -> Outcome:
    changes, seed = job
    return train(_config(changes, seed), _corpus())


def _config(changes: Changes, seed: int) -> TrainConfig:
    given = {"model": "trial", "seed": seed, "store": "s", "documents": _DOCUMENTS}
    return TrainConfig.model_validate({**given, **nest(changes)})


def _corpus() -> Corpus:
    return load_corpus(DocumentsConfig.model_validate(_DOCUMENTS))


def _row(name: str, found: Sequence[Outcome], defaults: Sequence[Outcome] = ()) -> list[str]:
    return [
        name,
        str(interval_over_seeds([one.accuracy for one in found])),
        _gain(found, defaults) if defaults and found is not defaults else "",
        f"{fmean(one.second for one in found):.1%}",
        f"{fmean(one.words for one in found):.0f}",
        f"{fmean(one.flat for one in found):.0%}",
        f"{fmean(one.verdicts for one in found):.0f}",
    ]


def _gain(found: Sequence[Outcome], defaults: Sequence[Outcome]) -> str:
    gains = [one.accuracy - other.accuracy for one, other in zip(found, defaults, strict=True)]
    gain = interval_over_seeds(gains)
    return f"{100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


if __name__ == "__main__":
    typer.run(main)
