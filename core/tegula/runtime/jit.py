"""`tegula.jit` and the kernel object it makes."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from tegula.config import OVERRIDES, config
from tegula.errors import ArgumentError, CompilationError, HostCallError
from tegula.frontend.function import DeviceFunction
from tegula.runtime import grids, hooks, tracing
from tegula.runtime.async_compile import active_mode
from tegula.runtime.hooks import warming
from tegula.runtime.interface import KernelInterface
from tegula.runtime.parameters import KernelParam, kernel_params

if TYPE_CHECKING:
    from tegula.runtime.binding import Bound
    from tegula.runtime.compiled import CompiledKernel
    from tegula.runtime.dispatch_tables import Table
    from tegula.runtime.specialize import Specialized
    from tegula.runtime.variants import Prepared, Variants

MAX_BOUND_GRIDS = 1024
"""Launchers that a kernel keeps for grids it was launched on."""

Launcher = Callable[..., Any]
Names = Iterable[str | int]


class JITFunction(DeviceFunction, KernelInterface):
    """A kernel, or a function that kernels call: compiled when launched, once per kind of
    arguments.

        kernel[grid](*args, **options)

    `grid` is one to three counts of programs, or a function that gets the arguments as a dictionary
    and returns them. Keywords that are no parameters are options of the backend, and `device=`. The
    launch returns the `CompiledKernel`.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        version: Any = None,
        repr: Callable[[Any], str] | None = None,
        launch_metadata: Callable[..., Any] | None = None,
        do_not_specialize: Names = (),
        do_not_specialize_on_alignment: Names = (),
        debug: bool | None = None,
        noinline: bool = False,
    ) -> None:
        super().__init__(fn, noinline=noinline)
        self.version = version
        self.name_of = repr
        self.launch_metadata = launch_metadata
        self.do_not_specialize = do_not_specialize
        self.do_not_specialize_on_alignment = do_not_specialize_on_alignment
        self.debug = debug
        self.pre_run_hooks: list[Callable[..., Any]] = []
        self.params  # noqa: B018 - a wrong name in the decorator is an error where it stands
        self._bound: dict[Any, Launcher] = {}
        self._table: Table | None = None
        self._made_variants: Variants | None = None
        self._lock = threading.RLock()

    # -- what is known without compiling

    @functools.cached_property
    def params(self) -> tuple[KernelParam, ...]:
        """The parameters, with how far each is specialised."""
        return kernel_params(
            self.fn.__name__,
            DeviceFunction.params.func(self),  # type: ignore[attr-defined]
            self.do_not_specialize,
            self.do_not_specialize_on_alignment,
        )

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The Python signature."""
        return inspect.signature(self.fn)

    @functools.cached_property
    def arg_names(self) -> list[str]:
        """Names of the parameters, in order."""
        return [param.name for param in self.params]

    @property
    def cache_key(self) -> str:
        """Hash of the source and of everything it reaches: helpers and captured constants."""
        from tegula.frontend import source_key

        return source_key(self)

    @functools.cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.arg_names)

    @functools.cached_property
    def _defaults(self) -> dict[str, Any]:
        return {p.name: p.default for p in self.params if p.has_default}

    # -- launching

    def _launcher(self, grid: Any) -> Launcher:
        """The launcher for a grid; those used before come from a dictionary."""
        if grid.__class__ is tuple:
            for count in grid:  # 2.0 would find what was bound for 2
                if count.__class__ is not int:
                    return self._bind_grid(grid)
            try:
                return self._bound[grid]
            except KeyError:
                return self._bind_grid(grid)
        return CallableGrid(self, grid) if callable(grid) else self._bind_grid(grid)

    __getitem__ = _launcher  # until `dispatch.quicken` puts a native one in its place

    def _bind_grid(self, grid: Any) -> Launcher:
        from tegula.runtime import dispatch

        dims = grids.normalize(self.fn.__name__, grid)
        launcher = self._bound.get(dims)
        if launcher is None:
            slow = functools.partial(self._launch, dims)
            native = config.native_launch and 0 not in dims and not self.pre_run_hooks
            if native and dispatch.native() is not None:
                launcher = dispatch.launcher(self._own_table(), dims, slow)
                dispatch.quicken(JITFunction)
            else:
                launcher = slow
        with self._lock:
            if len(self._bound) >= MAX_BOUND_GRIDS:
                self._bound.clear()
            self._bound[dims] = launcher
            if type(grid) is tuple and all(type(count) is int for count in grid):
                self._bound[grid] = launcher
        return launcher

    def _own_table(self) -> Table:
        from tegula.runtime import dispatch

        with self._lock:
            if self._table is None:
                self._table = dispatch.new_table()
            return self._table

    def _launch(self, grid: grids.Grid, /, *args: Any, **kwargs: Any) -> CompiledKernel:
        """The path of the first launch of its kind, and of all that the dispatcher cannot do."""
        tracing.keep_out()
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        try:
            prepared = self._variants.prepare(args, kwargs)
        except CompilationError as error:  # its place is in the kernel: frames from here are noise
            raise error.with_traceback(None) from error.__cause__
        if 0 in grid:
            return prepared.compiled
        for array in prepared.specialized.arrays:
            array.check_memory()
        watched = hooks.watching()
        if self._table is not None and not self.pre_run_hooks and not watched:
            self._bind_variants(prepared, len(args), tuple(kwargs))
        if watched:
            named = {b.param.name: b.value for b in self.bind(args, kwargs)}
            launch = hooks.Launch(self, prepared.compiled, grid, named)
            for before in hooks.before_launch:
                before(launch)
        if config.debugger and prepared.compiled.selection.backend.name == "interpreter":
            self._debug(grid, prepared)
        else:
            prepared.compiled.run(grid, prepared.specialized.values)
        if watched:
            for after in hooks.after_launch:
                after(launch)
        return prepared.compiled

    def _debug(self, grid: grids.Grid, prepared: Prepared) -> None:
        """Run the kernel's own Python instead of the compiled code."""
        from tegula.debug import run_kernel
        from tegula.interp import Buffer
        from tegula.runtime.arguments import Array
        from tegula.runtime.compiled import memory_of

        given, request = prepared.specialized.values, prepared.compiled.request
        ranges = memory_of(given)
        buffers = [Buffer(m.address, m.nbytes, m.name, m.writable, m.shape) for m in ranges]
        values = [v.address if isinstance(v, Array) else v for v in given]
        options = {**request.context.options.to_json(), "target": request.context.target}
        run_kernel(self, request.types, request.constants, options, grid, values, buffers)

    @property
    def _variants(self) -> Variants:
        if self._made_variants is None:
            from tegula.runtime.variants import Variants

            with self._lock:
                if self._made_variants is None:
                    self._made_variants = Variants(self)
        return self._made_variants

    def _bind_variants(self, prepared: Prepared, nargs: int, kwnames: tuple[str, ...]) -> None:
        """Enter into the dispatcher's table what was prepared, if the dispatcher can take it."""
        from tegula.runtime import dispatch
        from tegula.runtime.dispatch_tables import MAX_ENTRIES, Variant

        table, specialized = self._own_table(), prepared.specialized
        entries = [*specialized.entries, *prepared.guards]
        stream = prepared.stream()
        if not specialized.native or len(entries) > MAX_ENTRIES or stream is None:
            return
        for compiled, checked in prepared.bindable:
            if compiled.kernel.launch_address is None:
                return
            pairs = self._pairs(specialized, checked)
            table.add(
                Variant(
                    nargs, kwnames or None, entries, len(specialized.values), pairs, compiled,
                    compiled.kernel.launch_address, compiled.kernel.handle,
                    OVERRIDES.get(), dispatch.generation(), *stream,
                    conservative=compiled is not prepared.bindable[0][0],
                )
            )  # fmt: skip

    @staticmethod
    def _pairs(
        specialized: Specialized, checked: Sequence[tuple[int, int, bool]]
    ) -> list[tuple[int, int, bool]]:
        """Alias checks by entry instead of slot."""
        from tegula.runtime.dispatch_tables import Flag

        pairs = []
        for entry in specialized.entries:
            entry.flags &= ~Flag.EXTENT
        for i, j, same_ok in checked:
            first, second = specialized.entry_of_slot[i], specialized.entry_of_slot[j]
            for index in (first, second):
                specialized.entries[index].flags |= Flag.EXTENT
            pairs.append((first, second, same_ok))
        return pairs

    def forget(self) -> None:
        """Drop everything compiled and bound in this process; the disk cache keeps what it has."""
        with self._lock:
            self._bound.clear()
            if self._table is not None:
                self._table.clear()
            self._made_variants = None

    def replace_source(self, text: str) -> None:
        """Compile another text from now on: one `def` with the same parameters."""
        super().replace_source(text)
        self.forget()

    # -- other ways in

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """`kernel[grid](*args, **kwargs)` with the grid as a keyword."""
        if warmup:
            return self.warmup(*args, grid=grid, **kwargs)
        return self[grid](*args, **kwargs)

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> CompiledKernel:
        """Compile for these arguments, launch nothing. A dtype stands for an array of it."""
        from tegula.runtime.mock import mock_arguments

        if not callable(grid):
            grids.normalize(self.fn.__name__, grid)
        mocked, named = mock_arguments(self.params, args, kwargs)

        def compile() -> CompiledKernel:
            token = warming.set(True)
            try:
                return self._variants.prepare(mocked, named).compiled
            finally:
                warming.reset(token)

        mode = active_mode.get()
        return compile() if mode is None else mode.submit(compile)  # type: ignore[return-value]

    def preload(self, text: str) -> CompiledKernel:
        """Compile the variant that a text describes: `data` of a `hooks.Compilation`."""
        from tegula.plugin import select
        from tegula.runtime import preload

        target = select.select_device([], None).info.target
        args, options = preload.decode(self, text, target)
        positional = [args.pop(p.name) for p in self.params if p.kind == "positional"]
        for param in self.params:
            if param.kind == "varargs":
                positional += args.pop(param.name)
        return self.warmup(*positional, **args, **options)

    @property
    def device_caches(self) -> DeviceCaches:
        """Variants known in this process: `device_caches[device][0]` is a dictionary of them."""
        return DeviceCaches(self._variants)

    def add_pre_run_hook(self, hook: Callable[..., Any]) -> None:
        """Call `hook(*args, **kwargs)` before every launch; launches then go through Python."""
        if not callable(hook):
            raise TypeError(f"a pre-run hook has to be callable, not {hook!r}")
        self.pre_run_hooks.append(hook)
        with self._lock:
            self._bound.clear()
            if self._table is not None:
                self._table.clear()

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Bound]:
        """The arguments in parameter order; what is missing or superfluous raises."""
        from tegula.runtime.binding import bind

        return bind(self.fn.__name__, self.params, args, kwargs)[0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tegula.language.active import active

        if active() is not None:  # host code that runs on a kernel's behalf
            return super().__call__(*args, **kwargs)
        raise HostCallError(
            f"kernel `{self.fn.__name__}` was called like a Python function; launch it with "
            f"{self.fn.__name__}[grid](...), where grid is the number of programs, or call it from "
            "another kernel"
        )


class DeviceCaches:
    """The variants of a kernel, the same for every device asked for: their keys name the device."""

    def __init__(self, variants: Variants) -> None:
        self._variants = variants

    def __getitem__(self, device: Any) -> tuple[dict[Any, CompiledKernel]]:
        return (self._variants.compiled,)


class CallableGrid:
    """A kernel with a grid that depends on the arguments."""

    __slots__ = ("grid", "kernel")

    def __init__(self, kernel: JITFunction, grid: Callable[[dict[str, Any]], Any]) -> None:
        self.kernel = kernel
        self.grid = grid

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kernel = self.kernel
        meta = {**kernel._defaults, **kwargs}
        meta.update(zip(kernel.arg_names, args))
        try:
            grid = self.grid(meta)
        except KeyError as error:
            kernel.bind(args, kwargs)  # a missing argument explains itself better
            raise ArgumentError(
                f"the grid function of kernel `{kernel.fn.__name__}` asks for {error}, which is "
                f"neither an argument nor an option of this launch"
            ) from error
        return kernel[grid](*args, **kwargs)


@overload
def jit(fn: Callable[..., Any]) -> JITFunction: ...
@overload
def jit(
    *,
    version: Any = None,
    repr: Callable[[Any], str] | None = None,
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Names | None = None,
    do_not_specialize_on_alignment: Names | None = None,
    debug: bool | None = None,
    noinline: bool | None = None,
) -> Callable[[Callable[..., Any]], JITFunction]: ...


def jit(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a kernel of a Python function: `@tegula.jit`, or `@tegula.jit(debug=True)` with options.

    version: anything; part of the cache key. repr: a function that names a variant, given `fn`,
    `name`, `signature` and `constants`. launch_metadata: a function that profilers call.
    do_not_specialize, do_not_specialize_on_alignment: parameters, by name or number, for which one
    compilation serves all values, or all alignments. debug: keep device assertions. noinline: stay
    a call.
    """
    given = {name: value for name, value in options.items() if value is not None}
    known = inspect.signature(JITFunction.__init__).parameters
    for name in given:
        if name not in known or name in ("self", "fn"):
            from tegula.errors import OptionError, nearest

            raise OptionError(f"tegula.jit has no option {name!r}{nearest(name, known)}")
    if fn is None:
        return lambda function: jit(function, **given)
    if isinstance(fn, JITFunction):
        return fn
    return JITFunction(fn, **given)
