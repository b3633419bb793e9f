"""What a judge's call costs."""

import pytest
from pydantic import ValidationError

from precis.config import JudgeConfig
from precis.records.spend import PRICES, Price, Spend, Usage, price_of, prices_of, usd


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("google/gemini-2.5-flash", "gemini-2.5-flash"),
        ("openai/gpt-4.1", "gpt-4.1"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("my-own-model", None),
        ("gpt-4.1-mini", None),
        ("gemini-2.5-flash-lite", None),
        ("google/gemini-2.5-pro:free", None),
    ],
)
def test_other_spellings_of_a_model_have_its_price(model: str, listed: str | None) -> None:
    assert price_of(model) == (PRICES[listed] if listed else None)


def test_a_call_costs_what_its_provider_says_or_its_tokens_at_the_table_s_price() -> None:
    assert usd("gemini-2.5-flash", Usage(1_000_000, 100_000)) == pytest.approx(0.30 + 0.25)
    unknown = Spend.of_call("my-own-model", Usage(1000, 10))
    assert (unknown.calls, unknown.unpriced, unknown.usd) == (1, 1, 0.0), "never a silent zero"
    usage = Usage.from_response({"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.0042})
    assert usd("my-own-model", usage) == 0.0042
    assert Spend.of_call("my-own-model", usage).unpriced == 0
    given_up = Spend.of_call("gpt-4o", Usage(1_000_000, 0), given_up=True)
    assert (given_up.calls, given_up.given_up, given_up.usd) == (0, 1, 2.5)
    assert (given_up + given_up).given_up == 2


def test_a_call_with_the_users_own_key_costs_what_the_models_maker_charges_beside_the_fee() -> None:
    fee = {"prompt_tokens": 10, "completion_tokens": 5, "cost": 0.05, "is_byok": True}
    charged = {"cost_details": {"upstream_inference_cost": 1.0}}
    assert Usage.from_response({**fee, **charged}).cost_usd == 1.05
    assert Usage.from_response(fee).cost_usd is None, "the fee alone is not the cost"
    assert Usage.from_response({**fee, **charged, "is_byok": False}).cost_usd == 0.05


def test_thinking_tokens_that_only_the_total_shows_are_paid_as_output() -> None:
    usage = Usage.from_response({"prompt_tokens": 21, "completion_tokens": 0, "total_tokens": 81})
    assert usage == Usage(21, 60)


@pytest.mark.parametrize(
    "usage", [None, {}, [], {"prompt_tokens": "many", "total_tokens": -3}, {"cost": 9e14}]
)
def test_a_missing_or_odd_usage_counts_as_no_tokens(usage: dict[str, object] | None) -> None:
    assert Usage.from_response(usage) == Usage(0, 0)


def test_the_user_s_prices_go_before_the_table_and_leave_the_rest_of_it() -> None:
    prices = prices_of(JudgeConfig(prices={"gemini-2.5-flash": (1.0, 2.0), "mine": (0.0, 0.0)}))
    assert price_of("google/gemini-2.5-flash", prices) == Price(1.0, 2.0)
    assert price_of("mine", prices) == Price(0.0, 0.0)
    assert price_of("gpt-4o", prices) == PRICES["gpt-4o"]
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        JudgeConfig(prices={"mine": (-1.0, 0.0)})
