"""Trial questions to the judges, before anything is rented."""

from precis.environments.summaries.judge.client import JudgeClient
from precis.errors import ConfigError


async def check_judge(judge: JudgeClient) -> str:
    """Whether the judge answers a trial question."""
    await judge.check()
    return judge.identity["model"]


async def check_second_judge(first: JudgeClient, second: JudgeClient) -> str:
    """Whether the second judge answers a trial question, and is another one than the first."""
    model = second.identity["model"]
    if model == first.identity["model"]:
        raise ConfigError(
            f"The second judge is the first one again, {model}: it would see what the reward sees.",
            "Give second_judge another model, best another maker's, or leave it out.",
        )
    await second.check()
    return model
