"""Optuna's own tests of samplers, as far as they apply to a sampler with a grid.

Each test has a grid with values of the distributions that it uses. docs/tuning.md lists the tests
that cannot apply.
"""

import pytest

suite = pytest.importorskip("optuna.testing.pytest_samplers")

import optuna  # noqa: E402

from wmg.tuner.sampler import DGDSampler  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.WARNING)

ANY = [-10, -5, -2, -1, -0.5, 0, 1e-6, 0.1, 0.5, 1, 2, 3, 4, 5, 7, 8, 9, 10, 25, 30, 100]
"""Numbers among which every distribution of numbers in the suite has some."""
GRIDS = {
    "test_categorical": {"x": ["a", "b", "c", 1, 2, 3]},
    "test_conditional_parameter_objective": {"x": [False, True], "y": ANY, "z": ANY},
    "test_conditional_sample_independent": {
        "category": ["x", "y"], "x": ["a", "b"], "y": ["a", "b"],
    },
    "test_float": {"x": ANY},
    "test_int": {"x": ANY},
    "test_nan_objective_value": {"x": [0.1, 0.15, 0.2]},
    "test_partial_fixed_sampling": {"x": ANY, "y": ANY, "z": ANY},
    "test_raise_error_for_samplers_during_multi_objectives": {"x": ANY},
    "test_sample_relative_categorical": {"x": [1, 10, 100], "y": [-100, -10, -1]},
    "test_sample_relative_mixed": {"x": ANY, "y": [-100, -10, -1]},
    "test_sample_single_distribution": {name: [1] for name in "abcdef"},
    "test_single_parameter_objective": {"x": ANY},
}  # fmt: skip


class TestDGDSampler(
    suite.BasicSamplerTestCase, suite.RelativeSamplerTestCase, suite.SingleOnlySamplerTestCase
):
    @pytest.fixture
    def sampler(self, request):
        grid = GRIDS.get(request.node.originalname, {"x": ANY, "y": ANY})
        return lambda: DGDSampler(grid, seed=0)
