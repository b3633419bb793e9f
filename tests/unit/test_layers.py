"""Who may import whom, read from the source."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ("precis", "tasks", "flows", "cli", "tools")
SUMMARIES = "precis.environments.summaries"
ABOUT_SUMMARIES = {
    "precis.checks",
    "precis.commands",
    "precis.inference",
    "precis.models",
    "precis.questions",
    "precis.rehearsal",
    "precis.training",
    "cli",
}


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
    """`precis.llm.client` belongs to `precis.llm`, `tasks.policy` to `tasks`."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "precis" else parts[0]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """For each module those that it imports."""
    known = modules()
    return {module: set(imports_of(path, known)) for module, path in known.items()}


@pytest.fixture(scope="module")
def graph(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """For each package those that it imports."""
    edges: dict[str, set[str]] = {}
    for module, imported in imports.items():
        # The command's entry point, which stands above everything.
        if module == "precis.__main__":
            continue
        targets = {package_of(name) for name in imported}
        edges.setdefault(package_of(module), set()).update(targets - {package_of(module)})
    return edges


def test_no_packages_import_each_other_in_a_circle(graph: dict[str, set[str]]) -> None:
    tuple(TopologicalSorter(graph).static_order())


def test_what_is_true_without_prefect_imports_none_of_it(graph: dict[str, set[str]]) -> None:
    above = {"prefect", "tasks", "flows", "cli", "tools", "deployments"}
    for package, imported in graph.items():
        if package.startswith("precis"):
            assert not imported & above, package
    assert not graph["tasks"] & {"flows", "tools"}
    assert "tools" not in graph["flows"]


def test_a_package_imports_only_from_its_floor_and_below(graph: dict[str, set[str]]) -> None:
    """The floors are those of the drawing in docs/code.md."""
    drawing = (ROOT / "docs" / "code.md").read_text().split("```text\n")[1].partition("```")[0]
    floors = [line for line in drawing.splitlines() if line.startswith(" ")]
    height = {}
    for down, line in enumerate(floors):
        for name in line[:43].split():
            height[name] = len(floors) - down
    drawn = {package.removeprefix("precis."): package for package in graph}
    assert {"cli", "tasks", "training", "store"} <= height.keys() <= drawn.keys()
    for name in height:
        for other in {package.removeprefix("precis.") for package in graph[drawn[name]]}:
            assert height[name] >= height.get(other, 0), f"{name} imports {other}"


def test_only_what_is_about_summarizing_knows_the_summaries(imports: dict[str, set[str]]) -> None:
    """Another environment than summaries must need no change to anything else.

    The embedded policy is a summarizer; what is trained is exported with its prompt, and writes
    summaries for whoever asks.
    """
    knowing = set()
    for module, imported in imports.items():
        if any(name.startswith(SUMMARIES) for name in imported):
            knowing.add(package_of(module))
    assert knowing - {"precis.environments"} == ABOUT_SUMMARIES
