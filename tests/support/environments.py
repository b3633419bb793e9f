"""The summaries' environment with judges that are given."""

from typing import Any

from precis.config import RolloutsConfig
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.services import Services
from precis.records.documents import Corpus


def summaries(
    corpus: Corpus, judge: Any, ruler: Any = None, second: Any = None, **rollouts: Any
) -> Summaries:
    settings = RolloutsConfig.model_validate(rollouts)
    return Summaries(corpus, settings, Services(judge, ruler, second))
