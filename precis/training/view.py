"""A run as it stands, for its report."""

from precis.llm.silence import silences
from precis.report.curve import CurveWords
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
        _curve_words(run),
    )


def _curve_words(run: Run) -> CurveWords:
    nouns = run.environment.nouns
    subtitle = nouns.achieved or f"On held-out {nouns.scenarios}, greedy"
    if not run.ledger.validations:
        return CurveWords("Held-out score, by training step", subtitle)
    last = run.ledger.validations[-1]
    title = f"Held-out {last.measure}, by training step"
    return CurveWords(title, subtitle, last.score.is_share)
