"""The structure of the code: explained names, unique classes, folders without cycles, few collaborators."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from test_architecture import HOUSE, ROOT, definitions, imports, module_of, product

pytestmark = pytest.mark.xdist_group("structure")

GLOSSARY = ROOT / "docs/reference/glossary.md"
PLAIN_WORDS = ROOT / "tests/module_words.txt"
"""Words in names of modules that need no row in the glossary: plain English, or a standard term of the field."""
MOST_COLLABORATORS = 6
"""Of one constructor: classes of the project with behaviour that it is given or makes."""
MOST_IMPORTS = 15
"""Modules of the project that one module may import, except where a program is put together."""
MOST_LINES = 60
"""Of one function, except the signature of a command."""
COMPOSITION = frozenset({"app", "cli", "pipeline", "__main__", "main", "search", "tail", "redact"})
"""Modules that put a program together: they import what they connect."""
LAYERS = frozenset(
    {"and", "cli", "app", "main", "options", "model", "format", "display", "store", "errors", "settings", "testing"}
)
"""Words for a layer of a program instead of a mechanism."""
VALUES = frozenset({"NamedTuple", "Protocol", "TypedDict", "Enum", "IntEnum", "StrEnum", "Exception"})

Sources = Mapping[str, str]


def folder_cycles(sources: Sources) -> list[list[str]]:
    """Folders of a program that import each other. A module at the root of a program counts as a folder."""
    return _cycles(sources, _folder)


def module_cycles(sources: Sources) -> list[list[str]]:
    """Modules that import each other: such a module cannot be imported first."""
    return _cycles(sources, module_of)


def _cycles(sources: Sources, unit: Callable[[str], str]) -> list[list[str]]:
    modules = {module_of(path) for path in sources}
    edges: dict[str, set[str]] = defaultdict(set)
    for path, text in sources.items():
        here = unit(path)
        for _, wanted in imports(path, text, modules):
            if wanted in modules and f"{wanted.replace('.', '/')}.py" in sources:
                there = unit(f"{wanted.replace('.', '/')}.py")
                if there != here and re.split(r"[/.]", there)[0] == re.split(r"[/.]", here)[0]:
                    edges[here].add(there)
    reached = {folder: _reached(folder, edges) for folder in edges}
    circles = {tuple(sorted(other for other in reached[one] if one in reached.get(other, ()))) for one in reached}
    return [list(circle) for circle in sorted(circles) if circle]


def _folder(path: str) -> str:
    return path.rpartition("/")[0] if path.count("/") > 1 else path.removesuffix(".py")


def _reached(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    todo = list(edges.get(start, ()))
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += edges.get(one, ())
    return found


def repeated_classes(sources: Sources) -> list[str]:
    """Class names that a program has twice, with the files."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, text in sources.items():
        for node in definitions(text):
            if isinstance(node, ast.ClassDef):
                found[path.split("/")[0], node.name].append(path)
    return [f"{name}: {', '.join(paths)}" for (_, name), paths in sorted(found.items()) if len(paths) > 1]


def crowded_constructors(sources: Sources) -> list[str]:
    """Constructors with too many collaborators: given, or made in `__init__`."""
    nodes = [(path, node) for path, text in sources.items() for node in definitions(text)]
    classes = [(path, node) for path, node in nodes if isinstance(node, ast.ClassDef)]
    acting = {node.name for _, node in classes if not _is_value(node)}
    found = []
    for path, node in classes:
        for method in node.body:
            if node.name in acting and isinstance(method, ast.FunctionDef) and method.name == "__init__":
                collaborators = sorted(_collaborators(method, acting))
                if len(collaborators) > MOST_COLLABORATORS:
                    found.append(f"{path}: {node.name}: {', '.join(collaborators)}")
    return found


def _is_value(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases}
    return bool(bases & VALUES) or any("dataclass" in ast.unparse(each) for each in node.decorator_list)


def _collaborators(method: ast.FunctionDef, acting: set[str]) -> Iterator[str]:
    for argument in [*method.args.args[1:], *method.args.kwonlyargs]:
        words = set(re.findall(r"\w+", ast.unparse(argument.annotation))) if argument.annotation else set()
        if words & acting:
            yield argument.arg
    for node in ast.walk(method):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in acting:
                yield f"{name}()"


def wide_imports(sources: Sources) -> list[str]:
    """Modules that import too many modules of the project."""
    modules = {module_of(path) for path in sources}
    counted = {
        path: len({wanted for _, wanted in imports(path, text, modules) if wanted in modules})
        for path, text in sources.items()
        if Path(path).stem not in COMPOSITION
    }
    return [f"{path}: {number}" for path, number in counted.items() if number > MOST_IMPORTS]


def long_functions(sources: Sources) -> list[str]:
    """Functions whose body is too long."""
    return [
        f"{path}:{node.lineno}: {node.name}"
        for path, text in sources.items()
        for node in definitions(text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.body[0].lineno >= MOST_LINES
    ]


def unexplained_names(sources: Sources, explained: str) -> list[str]:
    """Modules and folders with a word that is neither explained nor in the list of layers."""
    known = LAYERS | {_stem(word) for word in re.findall(r"[a-z]+", explained.lower())}
    return [
        f"{path}: {', '.join(lacking)}"
        for path in sorted(sources)
        if (lacking := [word for word in _words(path) if word not in known and _stem(word) not in known])
    ]


def _words(path: str) -> list[str]:
    """The words in the name of a module and of its folders below the program."""
    names = "_".join(Path(path).with_suffix("").parts[1:])
    return [word for word in names.split("_") if word not in {"", "init", "main"}]


def _stem(word: str) -> str:
    """The word without the ending of a plural."""
    return word[:-3] + "y" if word.endswith("ies") else word.removesuffix("s")


def test_folders_of_a_program_form_no_cycle():
    assert folder_cycles(product()) == []


def test_modules_form_no_cycle():
    assert module_cycles(product()) == []


def test_a_class_name_is_unique_in_its_program():
    assert repeated_classes(product()) == []


def test_no_constructor_has_more_than_six_collaborators():
    assert crowded_constructors(product()) == []


def test_no_module_imports_more_than_fifteen_others():
    assert wide_imports(product()) == []


def test_no_function_is_longer_than_sixty_lines():
    assert long_functions(product()) == []


def test_the_words_of_module_names_are_in_the_glossary_or_plain():
    explained = _terms(GLOSSARY.read_text(encoding="utf-8")) + PLAIN_WORDS.read_text(encoding="utf-8")
    assert unexplained_names(product(), explained) == []


def test_every_plain_word_is_in_the_name_of_a_module():
    words = {_stem(word) for path in product() for word in _words(path)}
    assert {word for word in PLAIN_WORDS.read_text(encoding="utf-8").split() if _stem(word) not in words} == set()


def _terms(glossary: str) -> str:
    """The first column of the glossary's tables."""
    return "\n".join(line.split("|")[1] for line in glossary.splitlines() if line.startswith("|"))


# -- the checks go red --------------------------------------------------------------------------------------------

CIRCLE = {"consumer/a/one.py": "from consumer.b import two", "consumer/b/two.py": "from consumer.a import one"}
CLASS = "class One:\n    pass\n"
MANY = "\n".join(f"class C{n}:\n    pass\n" for n in range(7))
TAKES = (
    "class Crowd:\n    def __init__(self, " + ", ".join(f"c{n}: C{n}" for n in range(7)) + ") -> None:\n        pass\n"
)
MAKES = (
    "class Crowd:\n    def __init__(self) -> None:\n        self.all = ["
    + ", ".join(f"C{n}()" for n in range(7))
    + "]\n"
)


def test_a_cycle_of_folders_is_found():
    assert folder_cycles(CIRCLE) == [["consumer/a", "consumer/b"]]
    assert folder_cycles({"consumer/a/one.py": "from consumer.b import two", "consumer/b/two.py": ""}) == []


def test_a_cycle_of_modules_of_one_folder_is_found():
    sources = {"consumer/a/one.py": "from consumer.a import two", "consumer/a/two.py": "from consumer.a.one import x"}
    assert module_cycles(sources) == [["consumer.a.one", "consumer.a.two"]]
    assert folder_cycles(sources) == []


def test_a_cycle_through_a_module_at_the_root_is_found():
    sources = {"consumer/app.py": "from consumer.b import two", "consumer/b/two.py": "from consumer.app import run"}
    assert folder_cycles(sources) == [["consumer/app", "consumer/b"]]


def test_a_repeated_class_is_found():
    assert repeated_classes({"consumer/a.py": CLASS, "consumer/b/c.py": CLASS}) == [
        "One: consumer/a.py, consumer/b/c.py"
    ]
    assert repeated_classes({"consumer/a.py": CLASS, "producer/b.py": CLASS}) == []


@pytest.mark.parametrize("text", [MANY + TAKES, MANY + MAKES])
def test_a_crowded_constructor_is_found(text):
    (found,) = crowded_constructors({"consumer/a.py": text})
    assert found.startswith("consumer/a.py: Crowd: ")


def test_a_long_function_is_found():
    text = "def f():\n" + "    x = 1\n" * (MOST_LINES + 1)
    assert long_functions({"consumer/a.py": text}) == ["consumer/a.py:1: f"]
    assert long_functions({"consumer/a.py": "def f():\n" + "    x = 1\n" * MOST_LINES}) == []


def test_a_module_that_imports_too_much_is_found():
    sources = {f"consumer/m{n}.py": "" for n in range(16)}
    text = "\n".join(f"from consumer import m{n}" for n in range(16))
    assert wide_imports(sources | {"consumer/a.py": text}) == ["consumer/a.py: 16"]
    assert wide_imports(sources | {"consumer/app.py": text}) == []


def test_a_name_without_an_explanation_is_found():
    assert unexplained_names({"consumer/wake/turns.py": ""}, "lease") == ["consumer/wake/turns.py: wake, turns"]
    assert unexplained_names({"consumer/leases/cli.py": ""}, "lease") == []
    assert {"shipper", *HOUSE} - {"tests"}
