"""Choosing between configurations of a kernel by measuring them.

    @tegula.autotune([tegula.Config({"BLOCK": 64}), tegula.Config({"BLOCK": 256})], key=["n"])
    @tegula.jit
    def kernel(x, n, BLOCK: tl.constexpr): ...

The first launch with new values of `key` (and new dtypes of arrays) measures; later ones find what
won in a dictionary. With `cache_results`, or TEGULA_CACHE_TUNING=1, later processes find it too.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from tegula.config import config as settings
from tegula.errors import (
    AutotunerError,
    CompileTimeAssertionFailure,
    OutOfResources,
    nearest,
)
from tegula.runtime.interface import KernelInterface, base_function, base_kernel

QUANTILES = (0.5, 0.2, 0.8)

PRUNING = ("early_config_prune", "perf_model", "top_k")

Timing = Any
"""Median, and the times that 20 % and 80 % of the runs stay below; in ms."""


class Config:
    """Values of a kernel's meta-parameters, and compile options, to try.

    kwargs: arguments by name. num_warps, num_stages, num_ctas, maxnreg: options of the backend,
    without effect where a device has no such notion. pre_hook: a function that gets all arguments
    by name before each launch with this configuration, and may change what they refer to.
    ir_override: accepted and ignored.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], Any] | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    OPTIONS = ("num_warps", "num_ctas", "num_stages", "maxnreg")

    def all_kwargs(self) -> dict[str, Any]:
        """Everything a launch with this configuration gets as keywords."""
        options = {name: getattr(self, name) for name in self.OPTIONS}
        return {**self.kwargs, **{n: v for n, v in options.items() if v is not None}}

    def _identity(self) -> tuple[Any, ...]:
        kwargs = tuple(sorted((n, repr(v)) for n, v in self.all_kwargs().items()))
        return (*kwargs, self.pre_hook, self.ir_override)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self._shown().items())

    def _shown(self) -> dict[str, Any]:
        override = {} if self.ir_override is None else {"ir_override": self.ir_override}
        return {**self.kwargs, **{n: getattr(self, n) for n in self.OPTIONS}, **override}

    def __repr__(self) -> str:
        return f"Config({self})"


class Autotuner(KernelInterface):
    """A kernel that finds its meta-parameters by itself; made by `autotune`.

    `cache` maps keys to the configurations that won, `best_config` is the one launched last,
    `configs_timings` and `bench_time` (seconds) tell about the last tuning. Launches from several
    threads do not disturb each other: what belongs to one launch lives in its context.
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config],
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., Any] | None = None,
        post_hook: Callable[..., Any] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool = False,
    ) -> None:
        self.fn = fn
        self.base_fn = base_function(fn)
        self.arg_names = list(arg_names)
        self.configs = list(configs) if configs else [Config({})]
        self.keys = list(key)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = pre_hook or self._prepare
        self.post_hook = post_hook or self._restore
        prune = dict(prune_configs_by or {})
        for name in prune:
            if name not in PRUNING:
                raise ValueError(
                    f"prune_configs_by has no {name!r}{nearest(name, PRUNING)}; it takes "
                    f"{', '.join(PRUNING)}"
                )
        self.perf_model: Callable[..., float] | None = prune.get("perf_model")
        self.configs_top_k: float = prune.get("top_k", 1.0)
        self.early_config_prune: Callable[..., Sequence[Config]] | None = prune.get(
            "early_config_prune"
        )
        self.num_warmups = warmup
        self.num_reps = rep
        self.use_cuda_graph = use_cuda_graph
        self._do_bench = do_bench
        self.cache_results = cache_results
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Timing] = {}
        self.bench_time: float | None = None
        self._lock = threading.RLock()
        self._busy: dict[Any, threading.Lock] = {}
        self._nargs: ContextVar[dict[str, Any] | None] = ContextVar("nargs", default=None)
        self._saved: ContextVar[dict[str, Any]] = ContextVar("saved")
        functools.update_wrapper(cast(Any, self), base_kernel(fn), updated=())
        self._check_names()

    def _check_names(self) -> None:
        for what, names in (
            ("key", self.keys),
            ("reset_to_zero", self.reset_to_zero),
            ("restore_value", self.restore_value),
        ):
            for name in names:
                if name not in self.arg_names:
                    raise ValueError(
                        f"{what} of the tuned kernel `{self.base_fn.__name__}` lists {name!r}, "
                        f"which is none of its parameters ({', '.join(self.arg_names)})"
                        f"{nearest(str(name), self.arg_names)}"
                    )

    @property
    def nargs(self) -> dict[str, Any] | None:
        """The positional arguments by name, of the launch that this thread is in."""
        return self._nargs.get()

    @nargs.setter
    def nargs(self, value: dict[str, Any] | None) -> None:
        self._nargs.set(value)

    @property
    def do_bench(self) -> Callable[..., Any]:
        """How a function is timed: called with the function and `quantiles`."""
        if self._do_bench is not None:
            return self._do_bench
        from tegula.testing import do_bench

        given: dict[str, Any] = {"warmup": self.num_warmups, "rep": self.num_reps}
        return functools.partial(do_bench, **{n: v for n, v in given.items() if v is not None})

    @do_bench.setter
    def do_bench(self, function: Callable[..., Any]) -> None:
        self._do_bench = function

    # -- buffers that kernels accumulate into

    def _prepare(self, args: Mapping[str, Any], reset_only: bool = False) -> None:
        for name in self.reset_to_zero:
            _fill_zero(args.get(name))
        if not reset_only:
            self._saved.set({name: _copied(args.get(name)) for name in self.restore_value})

    def _restore(self, args: Mapping[str, Any], exception: BaseException | None) -> None:
        for name, saved in self._saved.get({}).items():
            if saved is not None:
                _copy_into(args[name], saved)
        self._saved.set({})

    # -- measuring

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Timing:
        """Times of one configuration; infinite if it needs more than the device has."""
        kwargs = self._joined(meta, config)
        named = {**dict(zip(self.arg_names, args)), **kwargs}

        def call() -> None:
            if config.pre_hook is not None:
                config.pre_hook(named)
            self.pre_hook(named)
            try:
                self.fn.run(*args, **kwargs)
            except Exception as error:
                self.post_hook(named, exception=error)
                raise
            self.post_hook(named, exception=None)

        try:
            return self.do_bench(call, quantiles=QUANTILES)
        except (OutOfResources, CompileTimeAssertionFailure) as error:
            if settings.print_tuning:
                print(f"tegula: {self.base_fn.__name__} with {config}: {error}")
            return [float("inf")] * len(QUANTILES)

    def _joined(self, meta: Mapping[str, Any], config: Config) -> dict[str, Any]:
        """The keywords of a launch with a configuration."""
        chosen = config.all_kwargs()
        if not chosen.keys().isdisjoint(meta):
            conflicts = ", ".join(name for name in meta if name in chosen)
            raise ValueError(
                f"Conflicting meta-parameters: {conflicts}: the launch of "
                f"`{self.base_fn.__name__}` gives what its configurations choose; leave them out "
                "of the launch"
            )
        return {**meta, **chosen}

    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """The configurations worth measuring for the launch at hand."""
        configs = list(self.configs)
        nargs = self.nargs or {}
        if self.early_config_prune is not None:
            configs = list(self.early_config_prune(configs, nargs, **kwargs))
            if not configs:
                raise AutotunerError(
                    "No valid autotuner configs after pruning: `early_config_prune` of "
                    f"`{self.base_fn.__name__}` has to leave at least one"
                )
        if self.perf_model is None:
            return configs
        top_k = self.configs_top_k
        if isinstance(top_k, float) and top_k <= 1.0:
            top_k = max(1, int(len(configs) * top_k))
        elif not isinstance(top_k, int):
            raise TypeError(f"top_k is a number of configurations or a share up to 1, not {top_k}")
        if len(configs) <= top_k:
            return configs
        expected = {c: self.perf_model(**nargs, **kwargs, **c.all_kwargs()) for c in configs}
        return sorted(expected, key=expected.__getitem__)[: max(1, int(top_k))]

    def key_of(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        """What decides which configuration is best: values of `keys`, and all arrays' dtypes."""
        key = [named[name] for name in self.keys if name in named]
        key += [str(v.dtype) for n, v in named.items() if n in self._names and hasattr(v, "dtype")]
        return tuple(key)

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.arg_names)

    def _tune(self, key: tuple[Any, ...], args: Sequence[Any], kwargs: dict[str, Any]) -> Config:
        """Measure; who comes second waits for the first."""
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            found = self.cache.get(key)
            if found is not None:
                return found
            candidates = self.prune_configs(kwargs)
            if len(candidates) == 1:
                best = candidates[0]
            else:
                best = self._stored_or_measured(key, candidates, args, kwargs)
            self.cache[key] = best
        with self._lock:
            self._busy.pop(key, None)
        return best

    def _stored_or_measured(
        self,
        key: tuple[Any, ...],
        candidates: Sequence[Config],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> Config:
        stored = self._disk_key(key, candidates, kwargs)
        timings = _load(stored, candidates)
        hit = timings is not None
        if timings is None:
            start = time.perf_counter()
            timings = {c: self._bench(*args, config=c, **kwargs) for c in candidates}
            self.bench_time = time.perf_counter() - start
            _store(stored, candidates, timings)
            best = builtins.min(timings, key=lambda c: _median(timings[c]))
            nargs = dict(zip(self.arg_names, args))
            self._reset({**nargs, **kwargs, **best.all_kwargs()})
        best = builtins.min(timings, key=lambda c: _median(timings[c]))
        self.configs_timings = timings
        self._report(key, best, timings, hit)
        return best

    def _reset(self, named: dict[str, Any]) -> None:
        """Undo what measuring left in buffers that start from zero."""
        self.pre_hook(named, reset_only=True)

    def _report(
        self, key: tuple[Any, ...], best: Config, timings: dict[Config, Timing], hit: bool
    ) -> None:
        duration = None if hit else self.bench_time
        if settings.print_tuning:
            how = "found on disk" if duration is None else f"in {duration:.2f} s"
            print(f"tegula: tuned {self.base_fn.__name__} for {key} {how}: {best}")
        for listener in tuned_listeners:
            listener(
                fn=base_kernel(self.fn), key=key, best_config=best, configs_timings=timings,
                duration=duration, cache_hit=hit,
            )  # fmt: skip

    def _disk_key(
        self, key: tuple[Any, ...], candidates: Sequence[Config], kwargs: Mapping[str, Any]
    ) -> str | None:
        """Name of the result on disk; None if it is not to be kept there."""
        if not (self.cache_results or settings.cache_tuning):
            return None
        if any(c.pre_hook is not None for c in candidates):
            return None
        from tegula.frontend import frontend_fingerprint, source_key
        from tegula.plugin import select

        parts = [
            "tuning", frontend_fingerprint(), source_key(base_kernel(self.fn)),
            str(select.select_device([], kwargs.get("device")).info.target.digest()),
            repr(key), *map(str, candidates),
        ]  # fmt: skip
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    # -- launching

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launch with the best configuration, which is found first if need be."""
        if kwargs.pop("warmup", False):
            return self.warmup(*args, **kwargs)
        nargs = dict(zip(self.arg_names, args))
        with self._launch_of(nargs):
            if len(self.configs) > 1:
                named = {**nargs, **kwargs}
                key = self.key_of(named)
                best = self.cache.get(key)
                if best is None:
                    best = self._tune(key, args, kwargs)
            else:
                best = self.configs[0]
            self.best_config = best
            joined = self._joined(kwargs, best)
            if best.pre_hook is not None:
                best.pre_hook({**nargs, **joined})
            return self.fn.run(*args, **joined)

    def warmup(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Compile every configuration that pruning leaves."""
        with self._launch_of(dict(zip(self.arg_names, args))):
            return [
                self.fn.warmup(*args, **self._joined(kwargs, config))
                for config in self.prune_configs(kwargs)
            ]

    @contextmanager
    def _launch_of(self, nargs: dict[str, Any]) -> Iterator[None]:
        token = self._nargs.set(nargs)
        try:
            yield
        finally:
            self._nargs.reset(token)


tuned_listeners: list[Callable[..., Any]] = []
"""Called after every tuning with the keywords `fn`, `key`, `best_config`, `configs_timings`,
`duration` (seconds; None if the result was on disk), and `cache_hit`.
"""


def _median(timing: Timing) -> float:
    return float(timing[0] if isinstance(timing, list | tuple) else timing)


def _fill_zero(array: Any) -> None:
    if array is None:
        return
    if hasattr(array, "zero_"):
        array.zero_()
    else:
        array[...] = 0


def _copied(array: Any) -> Any:
    if array is None:
        return None
    return array.clone() if hasattr(array, "clone") else array.copy()


def _copy_into(array: Any, saved: Any) -> None:
    if hasattr(array, "copy_"):
        array.copy_(saved)
    else:
        array[...] = saved


def _load(stored: str | None, candidates: Sequence[Config]) -> dict[Config, Timing] | None:
    from tegula.runtime import cache

    raw = None if stored is None else cache.load(stored)
    if raw is None:
        return None
    try:
        times = json.loads(raw)
    except ValueError:
        return None
    return dict(zip(candidates, times)) if len(times) == len(candidates) else None


def _store(
    stored: str | None, candidates: Sequence[Config], timings: Mapping[Config, Timing]
) -> None:
    if stored is not None:
        from tegula.runtime import cache

        cache.store(stored, json.dumps([timings[c] for c in candidates]).encode())


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Let a kernel choose between configurations by measuring them.

    key: names of arguments whose values decide which configuration is best. prune_configs_by:
    `early_config_prune(configs, named_args, **kwargs)` drops some; `perf_model(**args)` estimates
    times, and only the `top_k` best (a count, or a share as a float) are measured. reset_to_zero,
    restore_value: names of arrays that are zeroed, or put back, around every run of a measurement.
    pre_hook(args, reset_only=False), post_hook(args, exception): take the place of these two.
    warmup, rep: ms of a measurement. do_bench(fn, quantiles=...): measures instead.
    use_cuda_graph: accepted and ignored. cache_results: keep results on disk.
    """

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn, fn.arg_names, configs, key, reset_to_zero, restore_value, pre_hook, post_hook,
            prune_configs_by, warmup, rep, use_cuda_graph, do_bench, cache_results,
        )  # fmt: skip

    return decorate
