"""How easily the code reads, in figures: `python bench/readability.py [folder …]`.

The measures of every codebase are made by this one program, so that they can be compared: a
folder of another project is measured as well. Strings under constants count as code, not as
comments.
"""

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PRODUCT = ("precis", "flows", "tasks", "cli", "deployments", "tools")
IRREGULAR = {
    "begun",
    "bound",
    "built",
    "done",
    "drawn",
    "found",
    "given",
    "gone",
    "held",
    "kept",
    "known",
    "laid",
    "left",
    "lost",
    "made",
    "met",
    "paid",
    "said",
    "seen",
    "sent",
    "shown",
    "spent",
    "taken",
    "thought",
    "told",
    "understood",
    "worn",
    "written",
}
NO_PARTICIPLES = {"bed", "feed", "need", "red", "seed", "shed", "speed", "embed"}


@dataclass
class Measures:
    """Counts over the files of a codebase."""

    file_lines: list[int] = field(default_factory=list)
    function_lines: list[int] = field(default_factory=list)
    functions: int = 0
    typed_returns: int = 0
    participles: int = 0
    public: int = 0
    documented: int = 0
    comments: int = 0
    packed: int = 0
    walrus: int = 0
    comprehensions: int = 0
    nested: int = 0
    classes: Counter[str] = field(default_factory=Counter)

    @property
    def lines(self) -> int:
        return sum(self.file_lines)

    def per_thousand(self, count: int) -> float:
        """A count for 1,000 lines."""
        return 1000 * count / max(1, self.lines)


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def add_file(measures: Measures, path: Path) -> None:
    """Count what one file holds."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    measures.file_lines.append(len(text.splitlines()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        measures.comments += token.type == tokenize.COMMENT
    for node in ast.walk(tree):
        add_node(measures, node)
    if ast.get_docstring(tree):
        measures.documented += 1
    measures.public += 1


def add_node(measures: Measures, node: ast.AST) -> None:
    """Count one node of a file's tree."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        add_function(measures, node)
    elif isinstance(node, ast.ClassDef):
        measures.classes[node.name] += 1
        add_docstring(measures, node)
    elif isinstance(node, ast.Assign):
        is_packed = isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
        measures.packed += is_packed
    elif isinstance(node, ast.NamedExpr):
        measures.walrus += 1
    elif isinstance(node, COMPREHENSIONS):
        measures.comprehensions += 1
        inner = (each for each in ast.walk(node) if each is not node)
        measures.nested += any(isinstance(each, COMPREHENSIONS) for each in inner)


def add_function(measures: Measures, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Count one function or method."""
    measures.functions += 1
    assert node.end_lineno is not None
    measures.function_lines.append(node.end_lineno - node.lineno + 1)
    measures.typed_returns += node.returns is not None
    measures.participles += is_participle(node.name.strip("_").split("_")[0])
    add_docstring(measures, node)


def add_docstring(
    measures: Measures, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
) -> None:
    """Count a public name, and whether it is documented."""
    if not node.name.startswith("_"):
        measures.public += 1
        measures.documented += ast.get_docstring(node) is not None


def is_participle(word: str) -> bool:
    """Whether a function's first word is a past participle, by suffix and a list."""
    if word in IRREGULAR:
        return True
    return word.endswith("ed") and word not in NO_PARTICIPLES


def files_in(folders: list[Path]) -> Iterator[Path]:
    """Every Python file below some folders."""
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))


def report(measures: Measures) -> str:
    """The measures as lines of text."""
    files = measures.file_lines
    functions = measures.function_lines
    repeated = {name: count for name, count in measures.classes.items() if count > 1}
    return "\n".join(
        [
            f"files                      {len(files)}",
            f"lines                      {measures.lines}",
            f"lines a file, median, p90  {statistics.median(files):.0f}, {percentile(files):.0f}",
            f"lines a function           {statistics.median(functions):.0f}, "
            f"{percentile(functions):.0f}, max {max(functions)}",
            f"typed returns              {measures.typed_returns / measures.functions:.0%}",
            f"public docstrings          {measures.documented / measures.public:.0%}",
            f"comments                   {measures.comments / measures.lines:.1%} of lines",
            f"packed assignments         {measures.per_thousand(measures.packed):.1f} per 1,000",
            f"walrus                     {measures.per_thousand(measures.walrus):.1f}",
            f"comprehensions             {measures.per_thousand(measures.comprehensions):.1f}",
            f"nested comprehensions      {measures.per_thousand(measures.nested):.1f}",
            f"named by a participle      {measures.participles / measures.functions:.1%}",
            f"class names used twice     {len(repeated)} ({', '.join(sorted(repeated))})",
        ]
    )


def percentile(values: list[int]) -> float:
    """The 90th."""
    return statistics.quantiles(values, n=10)[-1]


if __name__ == "__main__":
    given = sys.argv[1:] or PRODUCT
    measures = Measures()
    for path in files_in([Path(name) for name in given if Path(name).is_dir()]):
        add_file(measures, path)
    print(report(measures))
