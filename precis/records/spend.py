"""The cost of the judge's calls, in tokens and dollars.

An unknown price is never a silent zero: such calls are counted in `Spend.unpriced`, so that a total
of dollars can be shown as a lower bound.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import add, sub
from typing import Any, Self

from precis.config import JudgeConfig


@dataclass(frozen=True)
class Usage:
    """The tokens of one call.

    Attributes:
        cost_usd: the provider's own figure, if its response has one.
    """

    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None = None

    @property
    def tokens(self) -> int:
        """Both together, as counted by limits."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def in_response(self) -> dict[str, int]:
        """The `usage` of a response."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.tokens,
        }

    @classmethod
    def from_response(cls, usage: Mapping[str, Any] | None) -> Self:
        """Read a response's `usage`; a missing or odd one counts as no tokens.

        Google's OpenAI-compatible endpoint leaves thinking tokens out of `completion_tokens` but
        bills them as output: they show only as the rest of `total_tokens`. OpenRouter adds `cost`,
        which is its fee alone for a key of the user's own at the model's maker (`is_byok`).
        """
        usage = usage if isinstance(usage, Mapping) else {}
        prompt = int(_amount(usage.get("prompt_tokens")) or 0)
        completion = int(_amount(usage.get("completion_tokens")) or 0)
        total = int(_amount(usage.get("total_tokens")) or 0)
        cost = _amount(usage.get("cost"))
        if cost is not None and usage.get("is_byok") is True:
            details = usage.get("cost_details")
            charged = details.get("upstream_inference_cost") if isinstance(details, dict) else None
            makers_usd = _amount(charged)
            cost = None if makers_usd is None else cost + makers_usd
        return cls(prompt, max(completion, total - prompt), cost)


@dataclass(frozen=True)
class Price:
    """USD for a million tokens: `Price(prompt=0.30, completion=2.50)`."""

    prompt: float
    completion: float

    def of(self, usage: Usage) -> float:
        tokens = usage.prompt_tokens * self.prompt + usage.completion_tokens * self.completion
        return tokens / 1_000_000


Prices = Mapping[str, Price]

PRICES: Prices = {
    "gemini-2.5-flash": Price(0.30, 2.50),
    "gemini-2.5-pro": Price(1.25, 10.00),
    "gpt-4o": Price(2.50, 10.00),
    "gpt-4.1": Price(2.00, 8.00),
    "o4-mini": Price(1.10, 4.40),
    "claude-sonnet-4": Price(3.00, 15.00),
    "gpt-5.2": Price(1.75, 14.00),
    "gpt-5-mini": Price(0.25, 2.00),
    "gemini-3-pro-preview": Price(2.00, 12.00),
    "claude-sonnet-4.5": Price(3.00, 15.00),
    "lexical-judge": Price(0.0, 0.0),
}
"""List prices of prompts under 200,000 tokens, of November 2026, by Google, OpenAI and Anthropic;
those of gpt-5.2, gpt-5-mini, gemini-3 and claude-sonnet-4.5 are from litellm 1.82.

OpenRouter passes these prices on, and its vendor prefix (`google/…`) is ignored.
"""


@dataclass(frozen=True)
class Spend:
    """A running total; add with `+`.

    Attributes:
        calls: paid answers.
        cached: replies from the cache instead.
        usd: dollars of the calls with a known price.
        unpriced: calls with an unknown price, not included in `usd`.
        given_up: requests that were cancelled before their reply came, such as the slower of two
            (`precis.llm.hedging`), or whose reply broke off. A provider may bill them without
            reporting it, so tokens and `usd` include an estimate for each, as if the reply had
            come.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    given_up: int = 0

    @classmethod
    def of_call(
        cls, model: str, usage: Usage, prices: Prices = PRICES, *, given_up: bool = False
    ) -> Self:
        """Return the cost of one call: by its response, or the most possible if it was given
        up."""
        dollars = usd(model, usage, prices)
        return cls(
            calls=int(not given_up),
            given_up=int(given_up),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            usd=dollars or 0.0,
            unpriced=int(dollars is None),
        )

    def since(self, earlier: "Spend") -> "Spend":
        """Return the spend since `earlier`, a total of the same meter."""
        return Spend(*map(sub, vars(self).values(), vars(earlier).values()))

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Estimate:
    """An estimate of the requests to a model or a service; its `str` is a sentence.

    Attributes:
        usd: dollars at list prices; None if a price is unknown.
        warnings: warnings about it, a sentence each.
    """

    sentence: str
    usd: float | None
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sentence


def prices_of(config: JudgeConfig) -> Prices:
    """Return the table above, updated with the user's prices."""
    own = {model: Price(*both) for model, both in config.prices.items()}
    return {**PRICES, **own}


def price_of(model: str, prices: Prices = PRICES) -> Price | None:
    """Return the price of a model, or None if the table has none.

    The exact name wins; then the name without its vendor (`google/gemini-2.5-flash`) and without
    a variant (`:free` is a different price, so only dated snapshots such as `-2025-04-14` or
    `-20250514` are cut off).
    """
    if model in prices:
        return prices[model]
    name = model.rpartition("/")[2]
    undated, _, date = name.partition("-20")
    is_dated = date.replace("-", "").isdigit()
    return prices.get(name) or (prices.get(undated) if is_dated else None)


def usd(model: str, usage: Usage, prices: Prices = PRICES) -> float | None:
    """Return the dollars of one call, or None if neither response nor price table gives them. The
    provider's own figure wins over the table."""
    if usage.cost_usd is not None:
        return usage.cost_usd
    price = price_of(model, prices)
    return price.of(usage) if price else None


def _amount(value: object) -> float | None:
    """Return a number that can be a count or a price; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < 1e9 else None  # the sums of a run's must fit into its ledger
