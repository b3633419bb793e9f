"""Who may import whom, read from the source."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("precis", "tasks", "flows", "cli", "tools")


def modules() -> dict[str, Path]:
    """Every module of the product by its dotted name."""
    found = {}
    for top in PRODUCT:
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = path
    return found


def imports_of(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The product's modules that a module imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in known else node.module


def package_of(module: str) -> str:
    """`precis.judge.client` belongs to `precis.judge`, `tasks.policy` to `tasks`."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "precis" else parts[0]


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """For each package those that it imports."""
    known = modules()
    edges: dict[str, set[str]] = {}
    for module, path in known.items():
        # The command's entry point, which stands above everything.
        if module == "precis.__main__":
            continue
        targets = {package_of(name) for name in imports_of(path, known)}
        edges.setdefault(package_of(module), set()).update(targets - {package_of(module)})
    return edges


def test_no_packages_import_each_other_in_a_circle(graph: dict[str, set[str]]) -> None:
    tuple(TopologicalSorter(graph).static_order())


def test_what_is_true_without_prefect_imports_none_of_it(graph: dict[str, set[str]]) -> None:
    above = {"prefect", "tasks", "flows", "cli", "tools", "deployments"}
    for package, imported in graph.items():
        if package.startswith("precis"):
            assert not imported & above, package


def test_tasks_know_neither_flows_nor_the_command(graph: dict[str, set[str]]) -> None:
    assert not graph["tasks"] & {"flows", "cli", "tools"}
    assert not graph["flows"] & {"cli", "tools"}


def test_records_know_nobody_above_them(graph: dict[str, set[str]]) -> None:
    below = {"config", "environment", "errors", "record", "settings", "store", "text", "words"}
    ours = {package for package in graph["precis.records"] if package.startswith("precis")}
    assert ours <= {f"precis.{name}" for name in below}


@pytest.mark.parametrize(
    "package",
    [
        "flows",
        "tasks",
        *(
            f"precis.{name}"
            for name in (
                "training",
                "trainer",
                "run",
                "records",
                "store",
                "report",
                "statistics",
                "cluster",
            )
        ),
    ],
)
def test_only_who_samples_and_judges_knows_the_task(
    package: str, graph: dict[str, set[str]]
) -> None:
    """A second task than summarizing must need no change to these."""
    assert "precis.summaries" not in graph[package]


def test_precis_has_at_most_a_dozen_modules_of_its_own() -> None:
    assert len(list((ROOT / "precis").glob("*.py"))) <= 12
