"""The summaries' environment with judges that are given."""

from typing import Any

from precis.config import RolloutsConfig
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.services import Services
from precis.records.documents import Corpus


def services(judge: Any, ruler: Any = None, second: Any = None) -> Services:
    return Services(judge, ruler, second)


def summaries(
    corpus: Corpus, judge: Any, ruler: Any = None, second: Any = None, **rollouts: Any
) -> Summaries:
    settings = RolloutsConfig.model_validate(rollouts)
    return Summaries(corpus, settings, services(judge, ruler, second))
