"""The import table of the design page, and a docstring for everything public."""

import ast
import functools
import pathlib
import subprocess
import sys

import pytest

import wmg

ROOT = pathlib.Path(wmg.__file__).parent
SOURCES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}
MODULES = pytest.mark.parametrize("module", SOURCES)


def within(name, package):
    return name == package or name.startswith(package + ".")


LAYERS = [
    {"tools"},
    {"types", "hooks", "settings"},
    {"registry"},
    {"config"},
    {"agents", "envs"},
    {"play"},
    {"learn"},
    {"runs"},
    {"paper", "tuner", "viewer", "interop"},
    {"api"},
    {"cli"},
    {"__main__"},
]
"""From the bottom up. A module imports from its own layer and those below."""

NEVER = {
    "wmg.agents": ("wmg.envs", "wmg.config", "wmg.registry"),
    "wmg.envs": ("wmg.agents", "wmg.config", "wmg.registry"),
    "wmg.play": ("wmg.agents", "wmg.envs"),
    "wmg.learn.a3c": ("wmg.agents", "wmg.envs"),
}
"""What modules know each other through `types` alone."""
WINDOW_MAY = {f"wmg.agents.layers{name}" for name in ("", ".Linear", ".Blocks")}
NUMPY_ONLY = ("wmg.tuner.dgd", "wmg.tuner.posterior")
PUBLISHED_WITH = "from . import dgd"
"""The sampler imports the algorithm so: the two files work wherever they are put together."""
WITHOUT_JAX = ["wmg.config", "wmg.registry", "wmg.settings", "wmg.paper"]
WITHOUT_JAX += ["wmg.api.suite.tasks", "wmg.api.suite.makers"]
WITHOUT_JAX += [
    module
    for module in SOURCES
    if within(module, "wmg.cli") or module.endswith((".settings", ".target"))
]
RUN_DATA = (
    "ledger",
    "medians",
    "outcome",
    "overview",
    "report",
    "reproduce",
    "result_file",
    "verdict",
)
NOT_DATA = ("wmg.paper", "wmg.paper.targets", *(f"wmg.paper.{name}" for name in RUN_DATA))
MOST_MODULES, MOST_FOLDERS = 5, 12
"""At the top of the package."""


@functools.cache
def tree(module):
    return ast.parse(SOURCES[module].read_text())


def names(node):
    """What an import statement names; `from a import b` names a and a.b."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        if node.level:
            assert ast.unparse(node) == PUBLISHED_WITH, "relative imports are not used here"
            return {"wmg.tuner.dgd"}
        parts = {f"{node.module}.{alias.name}" for alias in node.names}
        return parts | {node.module}
    return set()


def imports(module, late=True):
    """Everything the module imports; without late ones, only those run by importing it."""
    nodes = ast.walk(tree(module)) if late else tree(module).body
    return set().union(*(names(node) for node in nodes))


def ours(module):
    """The modules of this package that the module imports."""
    named = {name for name in imports(module) if name.split(".")[0] == "wmg"}
    return {name for name in named if name in SOURCES and name != "wmg"}


def layer(module):
    top = module.split(".")[1]
    (found,) = [i for i, layer in enumerate(LAYERS) if top in layer] or [None]
    assert found is not None, f"{module} is in no layer of this test's table"
    return found


@MODULES
def test_imports_point_downwards(module):
    if module == "wmg":
        assert not any(within(name, "wmg") for name in imports(module, late=False))
        return
    for other in ours(module):
        assert layer(other) <= layer(module), f"{module} imports {other}"


@pytest.mark.parametrize("module", [m for m in SOURCES if any(within(m, n) for n in NEVER)])
def test_parts_that_must_not_know_each_other_do_not(module):
    (forbidden,) = [NEVER[name] for name in NEVER if within(module, name)]
    for other in ours(module):
        known = any(within(other, name) for name in forbidden)
        assert not known, f"{module} imports {other}"


def test_of_the_agents_the_scan_of_a_window_knows_linear_layers_only():
    known = {name for name in imports("wmg.learn.window") if within(name, "wmg.agents")}
    assert known <= WINDOW_MAY


def test_no_module_imports_itself_by_a_detour():
    done = set()

    def visit(module, path):
        assert module not in path, " > ".join([*path, module])
        if module not in done:
            for other in sorted(ours(module)):
                # A package imports its parts; a part that names the package is no cycle.
                if not within(module, other):
                    visit(other, (*path, module))
            done.add(module)

    for module in SOURCES:
        visit(module, ())


@pytest.mark.parametrize("module", [name for name in NUMPY_ONLY if name in SOURCES])
def test_plain_parts_use_numpy_and_the_standard_library_alone(module):
    assert ours(module) <= {"wmg.config", "wmg.tools.files", "wmg.tuner", "wmg.tuner.dgd"}
    used = {name.split(".")[0] for name in imports(module)}
    assert used - set(sys.stdlib_module_names) <= {"numpy", "wmg"}


def test_the_sampler_needs_optuna_and_numpy_alone():
    assert ours("wmg.tuner.sampler") == {"wmg.tuner.dgd"}
    used = {name.split(".")[0] for name in imports("wmg.tuner.sampler")}
    assert used - set(sys.stdlib_module_names) == {"numpy", "optuna", "wmg"}
    assert PUBLISHED_WITH in SOURCES["wmg.tuner.sampler"].read_text()


@pytest.mark.parametrize(
    "module", [m for m in SOURCES if within(m, "wmg.paper") and m not in NOT_DATA]
)
def test_experiments_are_data_and_import_settings_only(module):
    known = {m for m in ours(module) if not within(m, "wmg.paper")}
    assert {m for m in known if not m.endswith(".settings")} <= {"wmg.config"}


def test_the_package_is_a_few_modules_and_folders():
    own = [path for path in ROOT.iterdir() if not path.name.startswith("_")]
    assert sum(path.suffix == ".py" for path in own) <= MOST_MODULES
    assert sum(path.is_dir() for path in own) <= MOST_FOLDERS


def test_no_class_name_is_defined_twice():
    names = [
        node.name
        for module in SOURCES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ClassDef)
    ]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_commands_start_without_jax():
    modules = ", ".join(WITHOUT_JAX)
    code = f"import sys, {modules}; sys.exit(bool({{'jax', 'equinox'}} & set(sys.modules)))"
    search = {"PYTHONPATH": str(ROOT.parent)}
    assert subprocess.run([sys.executable, "-c", code], env=search).returncode == 0


def test_nothing_but_the_kernels_needs_pallas():
    modules = sorted(SOURCES.keys() - {"wmg.__main__", "wmg.agents.wmg.kernels"})
    hide = "import sys; sys.modules['jax.experimental.pallas'] = None"
    search = {"PYTHONPATH": str(ROOT.parent)}
    for code, fails in ((", ".join(modules), 0), ("wmg.agents.wmg.kernels", 1)):
        command = [sys.executable, "-c", f"{hide}; import {code}"]
        done = subprocess.run(command, env=search, capture_output=True, text=True)
        assert done.returncode == fails, done.stderr


@MODULES
def test_every_module_says_what_it_is(module):
    assert ast.get_docstring(tree(module))


@MODULES
def test_every_public_function_and_class_says_what_it_is(module):
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    public = [
        node
        for node in tree(module).body
        if isinstance(node, kinds) and not node.name.startswith("_")
    ]
    assert [node.name for node in public if not ast.get_docstring(node)] == []
