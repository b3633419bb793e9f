"""What a run tells the automations: events of ours in Prefect's feed."""

from prefect.events import emit_event

from precis.config import BenchmarkConfig, TrainConfig


def announce_trained(config: TrainConfig) -> None:
    """Say that a model is trained, and has not been benchmarked; an automation does that then.

    The event `precis.train.completed` carries the parameters of the benchmark that it lacks.
    """
    benchmark = BenchmarkConfig.of(config).model_copy(update={"checkpoints": "ends"})
    emit_event(
        event="precis.train.completed",
        resource={
            "prefect.resource.id": f"precis.model.{config.model}",
            "prefect.resource.name": config.model,
        },
        payload={"benchmark": benchmark.model_dump(mode="json")},
    )
