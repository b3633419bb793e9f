"""What an installed Précis puts into an environment."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

from tests.support.wheel import refused_packages

ROOT = Path(__file__).parents[3]


def test_a_wheel_holds_the_library_with_its_licence_and_types_alone(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(built) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {"precis", "precis-0.1.0.dist-info"}
    assert "precis/data/fictional.parquet" in names
    assert "precis/report/template/report.css" in names
    assert "precis/py.typed" in names
    assert "precis-0.1.0.dist-info/licenses/LICENSE" in names


def test_a_trained_model_can_be_used_without_the_pipelines_packages() -> None:
    refused = refused_packages()
    assert {"prefect", "art", "openai", "matplotlib", "datasets"} <= set(refused)
    program = f"""
import sys
sys.modules.update(dict.fromkeys({refused}))  # importing one of them fails
import precis.inference.summarizer, precis.inference.texts, precis.questions.make
import precis.models.export, precis.models.serving, precis.store.s3
from precis.commands.main import COMMANDS, load
for name, command in COMMANDS.items():
    if command.target.startswith("precis."):
        load(name)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
