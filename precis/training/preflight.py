"""What can be found out about a run before anything is rented, beside Prefect's own part."""

import asyncio
from collections.abc import Callable

from precis.benchmark.measure import measure_ceiling
from precis.checks import Check, check_wandb
from precis.cluster.gpus import gpus_suffice
from precis.cluster.offers import budget_lasts, gpu_offered, infra_enabled
from precis.config import TrainConfig
from precis.errors import ConfigError
from precis.judge.ceiling import CEILING_DOCUMENTS, check_ceiling
from precis.models.licences import check_licence
from precis.records.documents import Corpus
from precis.records.ledger import find_ledger
from precis.run.continuation import check_settings
from precis.run.repair import refuse_lost_ledger
from precis.settings.tinker import TinkerTrainer
from precis.store import Store, open_store
from precis.trainer.tinker.check import check_service
from precis.training.fork import check_origin
from precis.training.run import Services, identity_of, teacher_for, warm_start_of


class Preflight:
    """The checks of a run; each is a method that says what it found, or raises a PrecisError.

    Not a dataclass: Prefect walks through those, and the corpus is large.

    Args:
        warn: told what is odd, and stops nothing.
    """

    def __init__(
        self, config: TrainConfig, corpus: Corpus, services: Services, warn: Callable[[str], None]
    ) -> None:
        self.config = config
        self._corpus = corpus
        self._judge = services.judge
        self._second = services.second
        self._warn = warn

    def checks(self) -> dict[str, Check]:
        """Each check, by its name in the table; all can be made at the same time."""
        checks: dict[str, Check] = {
            "documents": self.documents,
            "judge": self.judge,
            "store": self.store,
            "W&B": self.wandb,
            "licence": self.licence,
        }
        if self.config.trainer.kind == "tinker":
            checks["Tinker"] = self.tinker
        if self._second:
            checks["second judge"] = self.second_judge
        if self.config.warm_start is not None:
            checks["warm start"] = self.warm_start
        if self.config.cluster.where == "local" and self.config.trainer.kind == "art":
            checks["GPU"] = self.gpus_here
        if self.config.cluster.where == "sky":
            checks["SkyPilot's keys"] = self.infra
            checks["GPU"] = self.gpu
            checks["budget"] = self.budget
        return checks

    async def documents(self) -> str:
        """How the corpus is split."""
        return f"{len(self._corpus.train)} to train on, {len(self._corpus.validation)} held out"

    async def warm_start(self) -> str:
        """Whether there are summaries to begin with, or documents and somebody to write them."""
        config = self.config
        warm_start, _ = await asyncio.to_thread(warm_start_of, config, self._corpus)
        teacher = teacher_for(config)
        return f"{warm_start}, by {teacher.spec.contender}" if teacher else str(warm_start)

    async def judge(self) -> str:
        """Whether the judge answers a trial question."""
        await self._judge.check()
        return self._judge.identity["model"]

    async def second_judge(self) -> str:
        """Whether the second judge answers a trial question, and is another one than the first."""
        assert self._second is not None
        model = self._second.identity["model"]
        if model == self._judge.identity["model"]:
            raise ConfigError(
                f"The second judge is the first one again, {model}: it would see what the reward "
                "sees.",
                "Give second_judge another model, best another maker's, or leave it out.",
            )
        await self._second.check()
        return model

    async def store(self) -> str:
        """Check that the store can be written, and holds what the run continues or begins with."""
        config = self.config
        store = open_store(config.store)
        await asyncio.to_thread(store.check)
        await asyncio.to_thread(self._check_stored_run, store)
        await asyncio.to_thread(check_origin, store, config.model, config.from_checkpoint)
        return store.url

    def _check_stored_run(self, store: Store) -> None:
        """Refuse a run that lost its ledger, or has other settings, before a machine is rented."""
        found = find_ledger(store, self.config.model)
        if found is None:
            refuse_lost_ledger(store, self.config.model)
            return
        warm_start, corpus = warm_start_of(self.config, self._corpus)
        identity = identity_of(self.config, corpus, self._judge, warm_start)
        check_settings(found[0], self.config, identity, corpus.digest, store.url)

    async def wandb(self) -> str:
        """Whether W&B's key can be one, and is there where W&B trains."""
        return await check_wandb(self.config.trainer)

    async def tinker(self) -> str:
        """Whether the Tinker service takes the key, and has the base model."""
        assert isinstance(self.config.trainer, TinkerTrainer)
        return await check_service(self.config.trainer)

    async def licence(self) -> str:
        """Whether the model may be trained."""
        return await check_licence(self.config.trainer)

    async def infra(self) -> str:
        """Whether SkyPilot has the keys of a cloud."""
        return await infra_enabled(self.config.cluster)

    async def gpu(self) -> str:
        """Whether somebody offers the GPU."""
        return await gpu_offered(self.config.cluster)

    async def gpus_here(self) -> str:
        """Whether this machine has as many GPUs as are asked for."""
        trainer = self.config.trainer
        assert trainer.kind == "art"
        return await gpus_suffice(trainer.engine.gpus)

    async def budget(self) -> str:
        """Whether the budget pays for the machine."""
        return await budget_lasts(self.config.cluster, self.config.budget_usd)

    async def ceiling(self) -> str:
        """What the judge answers from the full documents, on a sample where there are many.

        To be called once all others are well: it costs calls of the judge.
        """
        store = open_store(self.config.store)
        found = await measure_ceiling(store, self._judge, self._corpus, CEILING_DOCUMENTS)
        if found is None:
            return "not measured: the judge failed on a document"
        model = self._judge.identity["model"]
        warning = check_ceiling(found, self.config.ceiling_min, model)
        if warning:
            self._warn(warning)
        return f"the judge answers {found:.0%} of the questions from the full documents"
