"""The compiled variants of one kernel: finding the right one for some arguments, or making it."""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from tegula.config import config
from tegula.errors import CompilationError, OptionError, nearest
from tegula.plugin import select
from tegula.runtime import compiler, dlpack, hooks
from tegula.runtime.arguments import Array, Located
from tegula.runtime.binding import Bound, bind
from tegula.runtime.compiled import CompiledKernel
from tegula.runtime.dispatch_tables import FROM_STORED, Entry, Kind
from tegula.runtime.specialize import Specialized, Specializer

if TYPE_CHECKING:
    from tegula.plugin.backend import Backend
    from tegula.plugin.records import CompileContext, Target
    from tegula.plugin.select import Selection
    from tegula.runtime.jit import JITFunction

Pairs = list[tuple[int, int, bool]]


foreign_options: set[str] = set()
"""Options of other projects' compilers, which launches may give where their programs are run."""

asserts_everywhere = False
"""Whether the setting `asserts` holds for kernels that say debug=False, too: so other projects have
it.
"""


@dataclass(slots=True)
class Prepared:
    """What one launch needs, and what the dispatcher needs for the next one like it."""

    compiled: CompiledKernel
    specialized: Specialized
    bindable: list[tuple[CompiledKernel, Pairs]]
    """Variants for these arguments with the alias checks each needs; the checked one first."""
    guards: list[Entry]
    """Checks that captured globals have not changed."""

    def stream(self) -> tuple[int, int] | None:
        """Native function that gives the current stream (0: it is always 0), and the device it is
        asked for; None where only Python can tell.
        """
        for array in self.specialized.arrays:
            device = array.device
            if device is None or device[0] == dlpack.HOST:
                continue
            if array.exchange is not None:
                return array.exchange.stream_of, dlpack.packed_device(device)
            function = self.compiled.selection.open().stream_function(array.value)
            return None if function is None else (function, dlpack.packed_device(device))
        return 0, 0


class Variants:
    """All variants of one kernel in this process, by everything that distinguishes them."""

    def __init__(self, kernel: JITFunction) -> None:
        for param in kernel.params:
            if param.is_constexpr and param.do_not_specialize:
                raise CompilationError(
                    f"`{kernel.fn.__name__}`: {param.name} marked as constexpr and listed in "
                    "do_not_specialize: one compilation cannot serve all values of a constant",
                    "take it from the list, or its annotation away",
                )
        self.kernel = kernel
        self.compiled: dict[Any, CompiledKernel] = {}
        self._lock = threading.Lock()
        self._busy: dict[Any, threading.Lock] = {}
        self._snapshot: Any = None
        self._guards: list[Entry] = []

    def prepare(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Prepared:
        """Bind, specialise, choose the device, and find or compile the variant."""
        kernel = self.kernel
        name = kernel.fn.__name__
        bound, extra = bind(name, kernel.params, args, kwargs)
        specializer = Specializer()
        for b in bound:
            if b.rest:
                specializer.add_members(b.param, b.value, b.source)
            else:
                specializer.add(b.param, b.value, b.source, b.parent)
        for value, source in extra.values():
            specializer.option(value, source)
        specialized = specializer.out
        given = {option: value for option, (value, _) in extra.items()}
        selection = _select(given.pop("device", None), specialized.arrays)
        context = self._context(selection, given, bound, kwargs)
        self._check_globals()
        return self._choose(selection, context, specialized, bound)

    # -- options

    def _context(
        self,
        selection: Selection,
        given: Mapping[str, Any],
        bound: Sequence[Bound],
        kwargs: Mapping[str, Any],
    ) -> CompileContext:
        target = selection.info.target
        known = _option_names(selection.backend, target)
        options = dict(given)
        if self.kernel.debug is not None:
            options.setdefault("debug", self.kernel.debug)
        if config.asserts:
            options["debug"] = True if asserts_everywhere else options.get("debug", True)
        if config.dot_precision:
            options.setdefault("default_dot_precision", config.dot_precision)
        if config.fp_fusion is not None:
            options.setdefault("enable_fp_fusion", config.fp_fusion)
        for name in [name for name in options if name not in known]:
            if name in foreign_options:
                del options[name]
            else:
                self._unknown(name, known, selection)
        # A parameter that has an option's name serves as both, if it was given by name.
        options.update({n: kwargs[n] for n in self.kernel._names & known if n in kwargs})
        return _context_of(selection.backend, target, _frozen(options))

    def _unknown(self, name: str, known: frozenset[str], selection: Selection) -> None:
        candidates = [*self.kernel.arg_names, *sorted(known), "device"]
        raise OptionError(
            f"kernel `{self.kernel.fn.__name__}` got the keyword '{name}', which is neither one of "
            f"its parameters ({', '.join(self.kernel.arg_names)}) nor an option of backend "
            f"'{selection.backend.name}' ({', '.join(sorted(known))}){nearest(name, candidates)}"
        )

    # -- globals

    def _check_globals(self) -> None:
        """Forget what was compiled when a global that it read means something else now."""
        snapshot = self._snapshot
        if snapshot is not None:
            if not snapshot.changed():
                return
            with self._lock:
                self.compiled.clear()
            table = self.kernel._table
            if table is not None:
                table.clear()
        from tegula.frontend import globals_snapshot

        self._snapshot = globals_snapshot(self.kernel)
        self._guards = list(_guards(self._snapshot.entries))

    # -- variants

    def _choose(
        self,
        selection: Selection,
        context: CompileContext,
        specialized: Specialized,
        bound: Sequence[Bound],
    ) -> Prepared:
        compiled = self._get(selection, context, specialized, bound)
        pairs = compiled.alias_pairs
        bindable = [(compiled, pairs)]
        if pairs and _overlap(specialized, pairs):
            options = {**_given_of(context), "assume_disjoint": False}
            careful = _context_of(selection.backend, context.target, _frozen(options))
            compiled = self._get(selection, careful, specialized, bound)
            bindable.append((compiled, []))
        return Prepared(compiled, specialized, bindable, self._guards)

    def _display_name(self, specialized: Specialized) -> str:
        """What the variant is called in reports: the kernel's name, or what `repr=` says."""
        kernel = self.kernel
        if kernel.name_of is None:
            return kernel.fn.__name__
        return str(
            kernel.name_of(
                SimpleNamespace(
                    fn=kernel,
                    name=kernel.fn.__name__,
                    signature={n: compiler.type_text(t) for n, t in specialized.types.items()},
                    constants=dict(specialized.constants),
                )
            )
        )

    def _get(
        self,
        selection: Selection,
        context: CompileContext,
        specialized: Specialized,
        bound: Sequence[Bound],
    ) -> CompiledKernel:
        options = context.options.key()
        key = (selection.backend, selection.id, options, tuple(specialized.key), context.target)
        found = self.compiled.get(key)
        if found is not None:
            return found
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        try:
            with busy:  # whoever comes second finds what the first one made
                found = self.compiled.get(key)
                if found is None:
                    found = self._make(key, selection, context, specialized, bound)
        finally:
            with self._lock:
                self._busy.pop(key, None)
        return found

    def _make(
        self,
        key: Any,
        selection: Selection,
        context: CompileContext,
        specialized: Specialized,
        bound: Sequence[Bound],
    ) -> CompiledKernel:
        """Compile a variant, or take it from the disk cache, and tell those who watch."""
        if not hooks.before_compile and not hooks.after_compile:
            found = self.compiled[key] = self._build(selection, context, specialized, bound)
            return found
        event = self._event(key, context, specialized, bound)
        for hook in hooks.before_compile:
            hook(event)
        found = self.compiled[key] = self._build(selection, context, specialized, bound)
        for hook in hooks.after_compile:
            hook(event)
        return found

    def _event(
        self, key: Any, context: CompileContext, specialized: Specialized, bound: Sequence[Bound]
    ) -> hooks.Compilation:
        defaults = type(context.options)()
        options = {
            name: value
            for name, value in context.options.to_json().items()
            if value != getattr(defaults, name)
        }
        named = {b.param.name: b.value for b in bound}
        return hooks.Compilation(
            self.kernel, key, named, options, context.target, specialized, hooks.warming.get()
        )

    def _build(
        self,
        selection: Selection,
        context: CompileContext,
        specialized: Specialized,
        bound: Sequence[Bound],
    ) -> CompiledKernel:
        config.check_environment()
        kernel = self.kernel
        request = compiler.Request(
            fn=kernel,
            types=specialized.types,
            constants=specialized.constants,
            attrs=specialized.attrs,
            context=context,
            backend=selection.backend,
            name=self._display_name(specialized),
            version="" if kernel.version is None else str(kernel.version),
            readonly=tuple(a.name for a in specialized.arrays if a.readonly),
        )
        artifact, key, timing = compiler.compile_artifact(request)
        how = "cache hit" if timing.hit else "compiled"
        compiler.log(1, lambda: f"{request.name} for {selection.id} ({selection.why}): {how}")
        compiler.log(2, lambda: f"{request.name}: {timing}")
        constant = [b.param.name not in specialized.types for b in bound]
        return CompiledKernel(request, artifact, key, selection, specialized.slots, constant)


def _guards(entries: Iterable[tuple[Any, tuple[str, ...], Any]]) -> Iterator[Entry]:
    """Native checks that captured names mean what they meant; each is one dictionary lookup.

    Variables of enclosing functions are not looked at again, and the language itself does not
    change, only what a name for it refers to.
    """
    told: set[tuple[int, str]] = set()
    for names, path, value in entries:
        if dict.__contains__(names, path[0]) or path[0] not in names.module:
            continue
        space = names.module
        for depth, name in enumerate(path, 1):
            found = space.get(name)
            if (id(space), name) not in told:
                told.add((id(space), name))
                yield Entry(
                    Kind.GLOBAL, parent=FROM_STORED, type=found, object=space, has_object=True,
                    pointer=sys.intern(name),
                )  # fmt: skip
            if found is value:
                break
            space = _names_in(found, path[depth:])
            if not space:
                break


def _names_in(found: Any, rest: tuple[str, ...]) -> dict[str, Any]:
    """The dictionary in which a module or a class has the next of some names; empty where none is
    looked at again.
    """
    if isinstance(found, ModuleType) and found.__name__.partition(".")[0] != "tegula":
        return found.__dict__
    if isinstance(found, type) and rest:
        owner = next((c for c in found.__mro__ if rest[0] in c.__dict__), object)
        inside = gc.get_referents(owner.__dict__) if owner is not object else []
        return inside[0] if len(inside) == 1 and type(inside[0]) is dict else {}
    return {}


# -------------------------------------------------------------------------------------------------
# Devices and contexts


def _select(device: Any, arrays: Sequence[Array]) -> Selection:
    tensors: list[tuple[str, Any]] = []
    for array in arrays:
        value = array.value
        if hasattr(value, "__dlpack_device__") or hasattr(value, "__array_interface__"):
            tensors.append((array.name, value))
        elif array.device is not None:
            tensors.append((array.name, Located(array)))
    return select.select_device(tensors, device)


def _frozen(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


@functools.lru_cache(maxsize=64)
def _option_names(backend: Backend, target: Target) -> frozenset[str]:
    return frozenset(backend.compiler.options(target, {}).names())


def _context_of(
    backend: Backend, target: Target, options: tuple[tuple[str, Any], ...]
) -> CompileContext:
    try:
        return _cached_context(backend, target, options, tuple(type(v) for _, v in options))
    except TypeError:  # an option's value cannot be hashed
        return backend.context(target, dict(options))


@functools.lru_cache(maxsize=256)
def _cached_context(
    backend: Backend, target: Target, options: tuple[tuple[str, Any], ...], kinds: tuple[type, ...]
) -> CompileContext:
    return backend.context(target, dict(options))


def _given_of(context: CompileContext) -> dict[str, Any]:
    return dict(context.options.to_json())


def _overlap(specialized: Specialized, pairs: Pairs) -> bool:
    """Whether a pair is not as the fast variant needs it; an unknown extent counts as overlap."""
    for i, j, same_ok in pairs:
        a, b = specialized.values[i], specialized.values[j]
        if not (a.extent_is_native and b.extent_is_native):
            return True
        first, second = a.extent(), b.extent()
        if first is None or second is None:
            return True
        if first[1] <= second[0] or second[1] <= first[0]:
            continue
        if same_ok and a.address == b.address:
            continue
        return True
    return False
