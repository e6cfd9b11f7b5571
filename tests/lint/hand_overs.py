"""Rules on what modules of the runner and the figures may use: no text becomes a command, pydantic is imported by one
module only and with names of both its versions, and the figures use a single module of the runner."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Folders of code that reads data files: experiments, results, traces.
DATA = ("tools/loch/runner/", "tools/loch/power/", "plots/")
# Calls that turn text into words, code or objects, and the files that may use each: slurm.py splits the text
# of `--slurm-options`, which comes from the command line and not from a data file.
MAKERS = {
    "shlex.split": ("tools/loch/runner/slurm.py",),
    "os.system": (),
    "os.popen": (),
    "subprocess.getoutput": (),
    "subprocess.getstatusoutput": (),
    "eval": (),
    "exec": (),
    "compile": (),
    "__import__": (),
    "pickle.load": (),
    "pickle.loads": (),
    "marshal.loads": (),
}
# The only modules outside plots/ that the code of plots/, which draws the figures, may import.
OF_PLOTS = ("loch.runner.drawing", "loch.written")
DOOR = "tools/loch/runner/compat.py"
# Names that exist in pydantic 1.10 and in pydantic.v1 of pydantic 2.
BOTH = {"BaseModel", "ErrorWrapper", "Extra", "Field", "ValidationError", "create_model", "root_validator"}


def _called(node: ast.Call) -> str:
    """The name of a called function, such as "shlex.split" or "eval"; empty if it is not a plain name."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return f"{node.func.value.id}.{node.func.attr}"
    return ""


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The (module, name) pairs of an import; ("x", "") for `import x`."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


def _commands(name: str, node: ast.AST) -> Iterator[str]:
    makers = {maker.rpartition(".")[2]: maker for maker in MAKERS}
    for module, each in _imported(node):
        if each in makers and makers[each] == f"{module}.{each}":
            yield f"imports {module}.{each} by its bare name; say {module}.{each}"
    if not isinstance(node, ast.Call):
        return
    called = _called(node)
    if called in MAKERS and name not in MAKERS[called]:
        yield f"{called}: a text that was read becomes no command and no code"
    if any(each.arg == "shell" and not _is_false(each.value) for each in node.keywords):
        yield "shell=: a text that was read becomes no command"


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _pydantic(name: str, node: ast.AST) -> Iterator[str]:
    for module, each in _imported(node):
        if module.split(".")[0] == "pydantic" and name != DOOR:
            yield f"imports {module}; {DOOR} alone does"
        door = module in (".compat", "loch.runner.compat") or (name == DOOR and module.split(".")[0] == "pydantic")
        if door and each and each not in BOTH:
            yield f"{each} is not among the names that both pydantics have: {', '.join(sorted(BOTH))}"


def _figures(node: ast.AST) -> Iterator[str]:
    for module, each in _imported(node):
        whole = f"{module}.{each}" if module in ("loch", "loch.runner") else module
        if module.split(".")[0] == "loch" and whole not in OF_PLOTS:
            yield f"imports {whole}; plots knows {' and '.join(OF_PLOTS)} alone"


def faults(name: str, text: str) -> Iterator[str]:
    """The violations in one Python file, given by its path in the tree and its text."""
    for node in ast.walk(ast.parse(text)):
        said = list(_pydantic(name, node)) if name.startswith(("tools/", "plots/")) else []
        if name.startswith("plots/"):
            said += _figures(node)
        if name.startswith(DATA):
            said += _commands(name, node)
        for each in said:
            yield f"{name}:{getattr(node, 'lineno', 0)}: {each}"
