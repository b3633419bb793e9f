"""A run as it stands, for its report."""

from precis.llm.silence import silences
from precis.report.training_report import TrainingView
from precis.run.outlook import RunPlan
from precis.training.run import Run, work_folder


def training_view(run: Run) -> TrainingView:
    """The ledger, what is still to come, the latest samples, and where else to look."""
    links = {
        "Store": f"{run.store.url}/{run.name}",
        "Logs of the trainer": str(work_folder(run.config)),
    }
    if run.log.wandb_url:
        links["W&B"] = run.log.wandb_url
    plan = RunPlan.of(run.config, run.ledger)
    environment = run.environment
    return TrainingView(
        run.ledger,
        plan,
        run.log.seen,
        links,
        environment.caveat,
        environment.show,
        environment.nouns.rollout,
        tuple(silences()),
    )
