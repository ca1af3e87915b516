"""Public functions and methods say what they take, and what they do."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("hypertf", "tfds_tasks", "experiments")
    for path in (ROOT / package).rglob("*.py")
)
# What Keras, Sites or Conditioner declares: said there, or by the layer's docstring.
OVERRIDES = {
    *("build", "add_weights", "call", "get_config", "from_config", "compute_changes"),
    *("encoder", "decoder", "stack_sites", "choose_trainable", "initialize_from"),
    *("keys_values", "observe", "project", "folded", "uses", "norm_scale", "on_built"),
    *("after_attention", "after_ffn", "beside_ffn", "what_trains", "reads_input"),
    *("needs_first_pass", "kernels", "packs", "by_segment"),
}


def public_functions(tree):
    """Yields (name, function, whether it must be described) of a module."""
    described = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name[0] != "_":
            bases = [ast.unparse(base) for base in node.bases]
            inherited = set().union(*(described.get(base, ()) for base in bases))
            methods = [n for n in node.body if isinstance(n, ast.FunctionDef)]
            described[node.name] = inherited | {m.name for m in methods}
            for method in methods:
                if method.name[0] != "_":
                    own = method.name not in OVERRIDES | inherited
                    yield f"{node.name}.{method.name}", method, own
        elif isinstance(node, ast.FunctionDef) and node.name[0] != "_":
            yield node.name, node, True


def untyped(function):
    """The arguments without a type, and "return" if that has none."""
    of = function.args
    arguments = [*of.posonlyargs, *of.args, *of.kwonlyargs]
    arguments += [a for a in (of.vararg, of.kwarg) if a is not None]
    names = [a.arg for a in arguments if a.annotation is None]
    names = [name for name in names if name not in ("self", "cls")]
    return names + ["return"] * (function.returns is None)


def lacks_a_sentence(function, required):
    """Whether there is no docstring that begins with a sentence."""
    text = ast.get_docstring(function)
    if text is None:
        decorators = [ast.unparse(d) for d in function.decorator_list]
        return required and "property" not in decorators
    paragraph = text.split("\n\n")[0].strip()
    begins = paragraph[0].isupper() or not paragraph[0].isalpha()
    return not begins or paragraph[-1] not in ".:?"


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_typed_and_described(module):
    tree = ast.parse((ROOT / module).read_text())
    wrong = {}
    for name, function, required in public_functions(tree):
        problems = untyped(function)
        problems += ["docstring"] * lacks_a_sentence(function, required)
        if problems:
            wrong[f"{name} (line {function.lineno})"] = problems
    assert not wrong, "\n".join(f"{k}: {', '.join(v)}" for k, v in wrong.items())


def test_modules_have_docstrings():
    without = [
        module
        for module in MODULES
        if not ast.get_docstring(ast.parse((ROOT / module).read_text()))
    ]
    assert not without
