"""Which pictures a benchmark gets, by the name of their file."""

from collections.abc import Iterable, Mapping, Sequence

from precis.report.bars import Bar, comparison
from precis.report.canvas import Chart
from precis.report.curve import StepPoint, learning_curve
from precis.report.overnights import NightlyAccuracy, over_nights
from precis.report.scatter import against_dollars, against_words
from precis.report.spots import Spot
from precis.report.topics import Topics, by_topic
from precis.report.wording import name
from precis.statistics.standings import Contender, Standing


def curve_picture(
    standings: Iterable[Standing], curve: Sequence[StepPoint], ceiling: float | None
) -> dict[str, Chart]:
    """`learning-curve`, where something was trained; the other contenders are level lines."""
    levels = {
        each.contender.model: each.accuracy.mean
        for each in select_ranked(standings)
        if each.contender.step is None and each.accuracy and each.accuracy.mean
    }
    return {"learning-curve": learning_curve(curve, levels, ceiling)} if curve else {}


def bars_picture(
    shown: Iterable[Standing], trained: Contender | None, ceiling: float | None
) -> dict[str, Chart]:
    """`comparison`: every ranked contender as a bar."""
    bars = [
        Bar(name(each.contender), each.accuracy, each.contender == trained)
        for each in select_ranked(shown)
        if each.accuracy
    ]
    return {"comparison": comparison(bars, ceiling)}


def cost_pictures(
    shown: Iterable[Standing], trained: Contender | None, words_max: int | None
) -> dict[str, Chart]:
    """`words`, and `dollars` where anybody has a price.

    Whoever keeps nothing, such as the empty summary, would only stretch the axes.
    """
    kept = [each for each in select_ranked(shown) if each.accuracy and each.accuracy.mean]
    words = _spots(kept, trained, {each.contender: each.words for each in kept})
    found = {"words": against_words(words, words_max)} if words else {}
    priced = _spots(kept, trained, {each.contender: each.usd_per_1000 for each in kept})
    return found | ({"dollars": against_dollars(priced)} if any(p.cost for p in priced) else {})


def topics_picture(
    topics: Topics, shown: Iterable[Standing], trained: Contender | None
) -> dict[str, Chart]:
    """`topics`, where there are two or more: the trained policy and the best of the others."""
    order = [each.contender for each in select_ranked(shown)]
    two = sorted(order, key=lambda each: each != trained)[:2]
    if not two or len(topics) < 2:
        return {}
    return {"topics": by_topic(topics, two, [name(each) for each in two])}


def nights_picture(
    nights: Sequence[NightlyAccuracy], worse: Iterable[Contender]
) -> dict[str, Chart]:
    """`nights`, where there are two or more."""
    several = len({each.night for each in nights}) > 1
    return {"nights": over_nights(nights, [each.model for each in worse])} if several else {}


def select_ranked(standings: Iterable[Standing]) -> list[Standing]:
    """Those that are complete and scored: the only ones that pictures compare."""
    return [each for each in standings if each.complete and each.accuracy]


def _spots(
    standings: Iterable[Standing],
    trained: Contender | None,
    costs: Mapping[Contender, float | None],
) -> list[Spot]:
    return [
        Spot(name(each.contender), cost, each.accuracy, each.contender == trained)
        for each in standings
        if each.accuracy and (cost := costs[each.contender]) is not None
    ]
