"""The forecast of a benchmark's requests and cost, made before the first request."""

from collections.abc import Sequence
from dataclasses import dataclass

from precis.benchmark.client import ContenderClient
from precis.benchmark.measure import measure
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.llm.forecast import Forecast
from precis.records.nouns import Nouns
from precis.records.rollout import Rollout, Unscored
from precis.records.spend import Usage


@dataclass(frozen=True)
class CostEstimate:
    """An estimate of what a benchmark will take, beyond what is kept already.

    Attributes:
        rollouts: those to pay for; of one with several turns, the first that is not kept
            counts.
        usd: the most that they cost, without what reasoning models think.
        thinking_usd: what that may add, if they use up all the tokens they may think with.
        unpriced: contenders whose price is not known, and which `usd` therefore misses.
        scoring: of what is not kept; None where that costs nothing.
    """

    nouns: Nouns
    rollouts: int
    kept: int
    usd: float
    thinking_usd: float
    unpriced: tuple[str, ...]
    scoring: Forecast | None

    @property
    def known_usd(self) -> float:
        """Rollouts and scores together, as far as their prices are known."""
        return self.usd + ((self.scoring.usd or 0.0) if self.scoring else 0.0)

    def __str__(self) -> str:
        thinking = f", and up to ${self.thinking_usd:,.2f} of thought" if self.thinking_usd else ""
        unknown = f" The price of {', '.join(self.unpriced)} is not known." if self.unpriced else ""
        asked = (
            f"{self.rollouts:,} {self.nouns.rollouts} are to be paid for, up to ${self.usd:,.2f}"
            f"{thinking}; {self.kept:,} are kept.{unknown}"
        )
        return f"{asked} {self.scoring}" if self.scoring else asked


async def estimate_cost(
    recorder: Recorder,
    contenders: Sequence[ContenderClient],
    environment: Environment,
    first: Sequence[Rollout] = (),
    sampled: int = 0,
) -> CostEstimate:
    """See what is kept, and what the rest will cost, by dry contenders in an environment that asks
    nobody; see `measure`."""
    paid: list[tuple[ContenderClient, Usage]] = []
    kept = 0
    unscored = 0
    scenarios = environment.scenarios("validation")
    for contender in contenders:
        if contender.kept is None:
            unscored += len(scenarios) * (1 + sampled)
            continue
        attempts = await measure(
            recorder, contender, environment, scenarios, first=first, sampled=sampled
        )
        for attempt in attempts:
            unscored += isinstance(attempt.rollout.score, Unscored)
            kept += not attempt.missing
            if contender.spec.paid and attempt.missing:
                paid.append((contender, attempt.missing[0]))
    unpriced = {str(one.spec.contender) for one, _ in paid if one.spec.price is None}
    return CostEstimate(
        environment.nouns,
        rollouts=len(paid),
        kept=kept,
        usd=sum(_usd(one, usage) for one, usage in paid),
        thinking_usd=sum(_usd(one, Usage(0, one.spec.thinking_tokens)) for one, _ in paid),
        unpriced=tuple(sorted(unpriced)),
        scoring=environment.forecast(unscored) if unscored else None,
    )


def _usd(contender: ContenderClient, usage: Usage) -> float:
    price = contender.spec.price
    return price.of(usage) if price else 0.0
