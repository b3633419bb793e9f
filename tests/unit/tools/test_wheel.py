"""What an installed Précis puts into an environment."""

from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

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
