"""Autotuning and heuristics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tegula
import tegula.language as tl
from tegula.config import config
from tegula.errors import ArgumentError, AutotunerError, OutOfResources
from tegula.runtime import autotune as tuning

CONFIGS = [tegula.Config({"BLOCK": n}) for n in (16, 32, 64)]


@tegula.jit
def add_one(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (tegula.cdiv(meta["n"], meta["BLOCK"]),)


class Clock:
    """Stands for `do_bench`: runs once, and says that configurations take what `times` says."""

    def __init__(self, times: Callable[[int], float] = lambda block: float(block)) -> None:
        self.calls = 0
        self.blocks: list[int] = []
        self.times = times
        self.block = 0

    def __call__(self, run: Callable[[], Any], quantiles: Any) -> list[float]:
        run()
        self.calls += 1
        self.blocks.append(self.block)
        return [self.times(self.block)] * 3


def tuned(clock: Clock, key: tuple[str, ...] = ("n",), **options: Any) -> Any:
    def note(args: dict[str, Any]) -> None:
        clock.block = args["BLOCK"]

    configs = [tegula.Config({"BLOCK": n}, pre_hook=note) for n in (16, 32, 64)]
    return tegula.autotune(configs, list(key), do_bench=clock, **options)(add_one)


def test_the_fastest_configuration_is_found_once_per_key() -> None:
    clock = Clock(lambda block: {16: 3.0, 32: 1.0, 64: 2.0}[block])
    kernel = tuned(clock)
    x = np.zeros(100, np.float32)
    kernel[grid](x, 100)
    assert kernel.best_config.kwargs == {"BLOCK": 32} and clock.blocks == [16, 32, 64]
    kernel[grid](x, 100)
    assert clock.calls == 3
    kernel[grid](x, 50)
    assert clock.calls == 6
    kernel[grid](x.astype(np.float64), 100)
    assert clock.calls == 9 and len(kernel.cache) == 3
    assert kernel.nargs is None and kernel.bench_time > 0
    assert [t[0] for t in kernel.configs_timings.values()] == [3.0, 1.0, 2.0]


def test_keywords_count_for_the_key() -> None:
    clock = Clock()
    kernel = tuned(clock)
    x = np.zeros(100, np.float32)
    kernel[grid](x, 100)
    kernel[grid](n=100, x=x)
    assert len({key[0] for key in kernel.cache}) == 1 and clock.calls == 3


def test_buffers_are_zeroed_or_put_back_around_measurements() -> None:
    x = np.full(64, 5, np.float32)
    tuned(Clock(), restore_value=["x"])[grid](x, 64)
    assert (x == 6).all()
    tuned(Clock(), reset_to_zero=["x"])[grid](x, 64)
    assert (x == 1).all()


def test_torch_buffers_are_restored() -> None:
    torch = pytest.importorskip("torch")
    x = torch.full((64,), 5.0)
    tuned(Clock(), restore_value=["x"])[grid](x, 64)
    assert (x == 6).all()


def test_hooks_take_the_place_of_restoring() -> None:
    seen: list[tuple[str, Any]] = []

    def pre(args: dict[str, Any], reset_only: bool = False) -> None:
        seen.append(("pre", reset_only))

    def post(args: dict[str, Any], exception: BaseException | None) -> None:
        seen.append(("post", exception))

    kernel = tuned(Clock(), pre_hook=pre, post_hook=post)
    kernel[grid](np.zeros(64, np.float32), 64)
    assert seen == [("pre", False), ("post", None)] * 3 + [("pre", True)]


def test_what_needs_too_much_is_not_chosen() -> None:
    def bench(run: Callable[[], Any], quantiles: Any) -> list[float]:
        run()
        return [1.0, 1.0, 1.0]

    def refuse(args: dict[str, Any]) -> None:
        raise OutOfResources(2, 1, "shared memory")

    configs = [tegula.Config({"BLOCK": 16}, pre_hook=refuse), tegula.Config({"BLOCK": 32})]
    kernel = tegula.autotune(configs, ["n"], do_bench=bench)(add_one)
    kernel[grid](np.zeros(64, np.float32), 64)
    assert kernel.best_config is configs[1]
    assert kernel.configs_timings[configs[0]] == [float("inf")] * 3


def test_errors_of_the_kernel_are_raised_and_told_to_the_hook() -> None:
    seen = []

    def bench(run: Callable[[], Any], quantiles: Any) -> list[float]:
        run()
        return [1.0]

    kernel = tegula.autotune(
        CONFIGS, [], do_bench=bench, post_hook=lambda args, exception: seen.append(exception)
    )(add_one)
    with pytest.raises(TypeError):
        kernel[(1,)](object(), 64)
    assert isinstance(seen[0], TypeError)


def test_pruning() -> None:
    def early(configs: list[Any], named: dict[str, Any], **kwargs: Any) -> list[Any]:
        assert named["n"] == 64
        return [c for c in configs if c.kwargs["BLOCK"] <= 32]

    clock = Clock()
    tuned(clock, prune_configs_by={"early_config_prune": early})[grid](np.zeros(64), 64)
    assert clock.blocks == [16, 32]
    clock = Clock()
    model = {"perf_model": lambda **args: -args["BLOCK"], "top_k": 2}
    tuned(clock, prune_configs_by=model)[grid](np.zeros(64), 64)
    assert clock.blocks == [64, 32]
    clock = Clock()
    kernel = tuned(clock, prune_configs_by={**model, "top_k": 0.34})
    kernel[grid](np.zeros(64), 64)
    assert clock.calls == 0 and kernel.best_config.kwargs == {"BLOCK": 64}
    with pytest.raises(AutotunerError, match="after pruning"):
        tuned(clock, prune_configs_by={"early_config_prune": lambda c, a, **k: []})[grid](
            np.zeros(64), 64
        )
    with pytest.raises(TypeError, match="top_k"):
        tuned(clock, prune_configs_by={**model, "top_k": 2.5})[grid](np.zeros(64), 64)


def test_one_configuration_is_not_measured() -> None:
    clock = Clock()
    kernel = tegula.autotune([tegula.Config({"BLOCK": 64})], ["n"], do_bench=clock)(add_one)
    x = np.zeros(64, np.float32)
    kernel[grid](x, 64)
    assert (x == 1).all() and clock.calls == 0 and kernel.best_config.kwargs == {"BLOCK": 64}
    plain = tegula.autotune([], [])(add_one)
    plain[(1,)](x, 64, BLOCK=64)
    assert (x == 2).all()


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="key.*'m'"):
        tegula.autotune(CONFIGS, ["m"])(add_one)
    with pytest.raises(ValueError, match="restore_value.*'y'"):
        tegula.autotune(CONFIGS, [], restore_value=["y"])(add_one)
    with pytest.raises(ValueError, match="Conflicting meta-parameters: BLOCK"):
        tegula.autotune(CONFIGS, [])(add_one)[(1,)](np.zeros(64), 64, BLOCK=64)
    with pytest.raises(ValueError, match="prune_configs_by.*'top'.*did you mean 'top_k'"):
        tegula.autotune(CONFIGS, [], prune_configs_by={"top": 1})(add_one)


@pytest.mark.parametrize("extra", [{"BLOCK": 64}, {"num_warps": 8}])
def test_launches_leave_to_configurations_what_these_choose(extra: dict[str, int]) -> None:
    several, one = tegula.autotune(CONFIGS, []), tegula.autotune(CONFIGS[:1], [])
    for kernel in (several(add_one), one(add_one)):
        kernel[(1,)](np.zeros(64, np.float32), 64)  # from here on, the choice is known
        with pytest.raises(ValueError, match=f"meta-parameters: {next(iter(extra))}.*leave them"):
            kernel[(1,)](np.zeros(64, np.float32), 64, **extra)


def test_threads_tune_without_disturbing_each_other() -> None:
    kernel = tuned(Clock(), restore_value=["x"])
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            x = np.zeros(n, np.float32)
            for _ in range(5):
                kernel[grid](x, n)
            assert (x == 5).all(), x
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (40, 50, 60, 40, 50, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(kernel.cache) == 3


@pytest.fixture
def listened() -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def listener(**what: Any) -> None:
        heard.append(what)

    tuning.tuned_listeners.append(listener)
    yield heard
    tuning.tuned_listeners.remove(listener)


def test_results_are_kept_on_disk(tmp_path: Any, listened: list[dict[str, Any]]) -> None:
    def bench(run: Callable[[], Any], quantiles: Any) -> list[float]:
        run()
        return [1.0, 1.0, 1.0]

    x = np.zeros(64, np.float32)
    with config.scope(cache_dir=str(tmp_path)):
        for _ in range(2):
            kernel = tegula.autotune(CONFIGS, ["n"], do_bench=bench, cache_results=True)(add_one)
            kernel[grid](x, 64)
        assert [what["cache_hit"] for what in listened] == [False, True]
        assert listened[0]["fn"] is add_one and listened[1]["duration"] is None
        assert listened[0]["configs_timings"] == listened[1]["configs_timings"]
        with config.scope(cache_tuning=True):
            tegula.autotune(CONFIGS, ["n"], do_bench=bench)(add_one)[grid](x, 64)
        assert listened[2]["cache_hit"]
        tegula.autotune(CONFIGS, ["n"], do_bench=bench)(add_one)[grid](x, 64)
        assert not listened[3]["cache_hit"]


def test_warmup_compiles_what_pruning_leaves() -> None:
    kernel = tegula.autotune(CONFIGS, ["n"])(add_one)
    compiled = kernel.warmup(np.dtype("float32"), 64, grid=(1,))
    assert len(compiled) == 3 and len({c.hash for c in compiled}) == 3


def test_heuristics_that_ask_for_what_no_launch_has() -> None:
    kernel = tegula.heuristics({"BLOCK": lambda args: args["size"]})(add_one)
    with pytest.raises(ArgumentError, match="heuristic 'BLOCK' of kernel .* asks for 'size'"):
        kernel[(1,)](np.zeros(8, np.float32), 8)


def test_heuristics_see_arguments_options_and_each_other() -> None:
    seen: list[dict[str, Any]] = []

    def block(args: dict[str, Any]) -> int:
        seen.append(args)
        return tegula.next_power_of_2(args["n"])

    kernel = tegula.heuristics({"BLOCK": block})(add_one)
    x = np.zeros(50, np.float32)
    kernel[grid](x, n=50)
    assert (x == 1).all() and seen[0]["n"] == 50 and seen[0]["x"] is x
    assert kernel.arg_names == ["x", "n", "BLOCK"] and kernel.__name__ == "add_one"


def test_tuned_kernels_are_called_from_kernels() -> None:
    @tegula.heuristics({})
    @tegula.jit
    def twice(v):
        return v * 2

    @tegula.jit
    def use(x):
        tl.store(x, twice(tl.load(x)))

    x = np.ones(1, np.float32)
    use[(1,)](x)
    assert x[0] == 2
