"""Measures of how easily the code reads: `python bench/readability.py [folder …]`.

It measures other projects' folders too, so that codebases can be compared. Strings under constants
count as code, not as comments.

Without a folder it measures this project, and its layers: packages are the folders and modules
directly below `precis/`, beside `flows`, `tasks` and `cli`. A package's floor is one above the
highest that it imports from. To follow a function is to read what it calls or passes on by name (a
function, a class, a method of the same class, a stage of the loop), three calls deep; calls through
an object's attribute are not followed.
"""

import ast
import io
import statistics
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PRODUCT = ("precis", "flows", "tasks", "cli", "deployments", "tools")
IRREGULAR = {
    "begun", "bound", "built", "done", "drawn", "found", "given", "gone", "held", "kept",
    "known", "laid", "left", "lost", "made", "met", "paid", "said", "seen", "sent", "shown",
    "spent", "taken", "thought", "told", "understood", "worn", "written",
}  # fmt: skip
QUESTION_WORDS = {"how", "what", "when", "where", "whether", "which", "who", "whose", "why"}
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
    docstrings: int = 0
    questions: int = 0
    comments: int = 0
    one_use: int = 0
    comprehensions: int = 0
    classes: Counter[str] = field(default_factory=Counter)

    @property
    def lines(self) -> int:
        return sum(self.file_lines)

    def per_thousand(self, count: int) -> float:
        """Return a count per 1,000 lines."""
        return 1000 * count / max(1, self.lines)


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def add_file(measures: Measures, path: Path) -> None:
    """Add the counts of one file."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    measures.file_lines.append(len(text.splitlines()))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        measures.comments += token.type == tokenize.COMMENT
    for node in ast.walk(tree):
        add_node(measures, node)
    measures.one_use += len(used_once(tree))
    if ast.get_docstring(tree):
        measures.documented += 1
    measures.public += 1


def used_once(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the private functions and methods that their own file names exactly once."""
    uses: Counter[str] = Counter()
    private = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            uses[node.attr] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_private(node.name):
            private.append(node)
    return [function for function in private if uses[function.name] == 1]


def is_private(name: str) -> bool:
    """Return whether a name begins with one underscore."""
    return name.startswith("_") and not name.startswith("__")


def add_node(measures: Measures, node: ast.AST) -> None:
    """Count one node of a file's tree."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        add_function(measures, node)
    elif isinstance(node, ast.ClassDef):
        measures.classes[node.name] += 1
        add_docstring(measures, node)
    elif isinstance(node, COMPREHENSIONS):
        measures.comprehensions += 1


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
    """Count a public name, and the docstring of any name by its first word."""
    text = ast.get_docstring(node)
    if not node.name.startswith("_"):
        measures.public += 1
        measures.documented += text is not None
    if text:
        measures.docstrings += 1
        measures.questions += text.split()[0].strip(",:;").lower() in QUESTION_WORDS


def is_participle(word: str) -> bool:
    """Return whether a function's first word is a past participle, by suffix and a list."""
    if word in IRREGULAR:
        return True
    return word.endswith("ed") and word not in NO_PARTICIPLES


def files_in(folders: list[Path]) -> Iterator[Path]:
    """Yield every Python file below some folders."""
    for folder in folders:
        yield from sorted(folder.rglob("*.py"))


def report(measures: Measures) -> str:
    """Return the measures as lines of text."""
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
            f"docstrings that ask        {measures.questions / max(1, measures.docstrings):.1%} "
            f"({measures.questions} of {measures.docstrings} begin with a question word)",
            f"comments                   {measures.comments / measures.lines:.1%} of lines",
            f"private, used once         {measures.per_thousand(measures.one_use):.1f} per 1,000",
            f"comprehensions             {measures.per_thousand(measures.comprehensions):.1f}",
            f"named by a participle      {measures.participles / measures.functions:.1%}",
            f"class names used twice     {len(repeated)} ({', '.join(sorted(repeated))})",
        ]
    )


def percentile(values: list[int]) -> float:
    """Return the 90th percentile."""
    return statistics.quantiles(values, n=10)[-1]


FOLLOWED = Path("precis/training/loop.py"), "take_step"
DEPTH = 3


class House:
    """The modules of this project, and their imports of each other."""

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}
        self.trees: dict[str, ast.Module] = {}
        for path in files_in([Path(name) for name in PRODUCT]):
            parts = path.with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.paths[name] = path
            self.trees[name] = ast.parse(path.read_text("utf-8"))

    def imports(self, module: str) -> dict[str, tuple[str, str]]:
        """Map a module's names to another module, and a name in it ("" for all of it)."""
        names = {}
        for node in ast.walk(self.trees[module]):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    target = (whole, "") if whole in self.trees else (node.module, alias.name)
                    names[alias.asname or alias.name] = target
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    names[alias.asname or alias.name] = (alias.name, "")
        return {name: target for name, target in names.items() if target[0] in self.trees}

    def packages(self) -> dict[str, set[str]]:
        """Return the other packages that each package imports."""
        graph: dict[str, set[str]] = {}
        for module in self.trees:
            own = package_of(module)
            others = graph.setdefault(own, set())
            others.update(package_of(target) for target, _ in self.imports(module).values())
            others.discard(own)
        return graph

    def follow(self, path: Path, function: str, depth: int) -> set[Path]:
        """Return the files to open to follow a function `depth` calls deep."""
        module = ".".join(path.with_suffix("").parts)
        seen = {(module, function)}
        level = set(seen)
        for _ in range(depth):
            level = {found for place in level for found in self.called_by(*place)} - seen
            seen |= level
        return {self.paths[module] for module, _ in seen}

    def called_by(self, module: str, name: str) -> set[tuple[str, str]]:
        """Return the definitions that one calls or passes on, by module and name."""
        imports = self.imports(module)
        own = definitions(self.trees[module])
        if name not in own:  # re-exported by a package's `__init__`
            return {imports[name]} if imports.get(name, ("", ""))[1] else set()
        found = set()
        for node in code_of(own[name]):
            if isinstance(node, ast.Name) and node.id in own:
                found.add((module, node.id))
            elif isinstance(node, ast.Name) and imports.get(node.id, ("", ""))[1]:
                found.add(imports[node.id])
            elif isinstance(node, ast.Attribute):
                owner = ast.unparse(node.value)
                if owner in imports and not imports[owner][1]:
                    found.add((imports[owner][0], node.attr))
                elif owner == "self" and node.attr in own:
                    found.add((module, node.attr))
                elif owner.endswith("stages") and node.attr in stages(own):
                    found.add(imports.get(stages(own)[node.attr], (module, node.attr)))
        return found


def package_of(module: str) -> str:
    """Return the folder or module directly below `precis/`, or the top folder."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "precis" else parts[0]


def definitions(tree: ast.Module) -> dict[str, ast.AST]:
    """Return the functions, classes and methods of a module, by name."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: node for node in ast.walk(tree) if isinstance(node, kinds)}


def code_of(definition: ast.AST) -> Iterator[ast.AST]:
    """Yield the code of a definition: a function's body without annotations, a class's
    constructor."""
    if isinstance(definition, ast.ClassDef):
        for node in definition.body:
            if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__post_init__"):
                yield from code_of(node)
        return
    for child in ast.iter_child_nodes(definition):
        if isinstance(child, ast.arguments) or child is getattr(definition, "returns", None):
            continue
        if isinstance(child, ast.AnnAssign):
            yield from ast.walk(child.value) if child.value else ()
            continue
        yield child
        yield from code_of(child)


def stages(own: dict[str, ast.AST]) -> dict[str, str]:
    """Return the default function of each stage of the loop."""
    found = {}
    for node in getattr(own.get("Stages"), "body", []):
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Name):
            found[ast.unparse(node.target)] = node.value.id
    return found


def floors(graph: dict[str, set[str]]) -> int:
    """Count the floors of the packages; raises CycleError where some import each other."""
    height: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        height[name] = 1 + max((height[other] for other in graph[name]), default=0)
    return max(height.values())


def house_report() -> str:
    """Return the layers of this project as lines of text."""
    house = House()
    graph = house.packages()
    try:
        layers = f"0, {floors(graph)}"
    except CycleError as error:
        layers = f"at least one: {' '.join(error.args[1])}"
    lines = {}
    for folder in ("precis", "tasks"):
        lines[folder] = sum(len(path.read_text().splitlines()) for path in files_in([Path(folder)]))
    files = house.follow(*FOLLOWED, DEPTH)
    return "\n".join(
        [
            f"lines of precis/           {lines['precis']}",
            f"lines of tasks/            {lines['tasks']}",
            f"to follow {FOLLOWED[1]}        {len(files)} files",
            *(f"                           {path}" for path in sorted(files)),
            f"packages, cycles, floors   {len(graph)}, {layers}",
        ]
    )


if __name__ == "__main__":
    given = [Path(name) for name in sys.argv[1:] or PRODUCT if Path(name).is_dir()]
    if not given:
        sys.exit("usage: python bench/readability.py [folder …], each of them a folder of code")
    measures = Measures()
    for path in files_in(given):
        add_file(measures, path)
    print(report(measures))
    if len(sys.argv) == 1:
        print(house_report())
