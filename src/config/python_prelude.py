# SPDX-License-Identifier: Apache-2.0
"""The Python side of the config reader.

This file is built into the library and run once in CPython when the first Python config is loaded. It runs configs,
sorts out what kind of value each Python object is, and stands in for modules that a config imports but that aren't
needed to read it: RETURNN's own helpers (tiny versions of those that configs use) and TensorFlow (placeholders).
python_host.c and python_convert.c call the functions at the end.
"""
import array
import collections.abc
import importlib.machinery
import itertools
import numbers
import os
import sys
import traceback
import types

STDLIB = os.path.dirname(os.__file__) + os.sep
ALWAYS_REPLACED = ("tensorflow", "returnn")  # never loaded, even where they are installed
MAX_RANGE = 1 << 20  # a longer one stays an object
replaced_modules = []  # names of modules that placeholders stand in for, since the last take_notes()


class Stub:
    """Stands for anything that comes out of a module that isn't there. Any use of it gives another one."""

    def __init__(self, name="stub"):
        self._stub_name = name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__") or name == "_stub_name":
            raise AttributeError(name)
        return Stub(self._stub_name + "." + name)

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
            return args[0]  # used as a decorator
        return Stub(self._stub_name + "()")

    def __getitem__(self, key):
        return Stub(self._stub_name + "[]")

    def __setitem__(self, key, value):
        pass

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __contains__(self, item):
        return False

    def __lt__(self, other):
        return False

    __le__ = __gt__ = __ge__ = __lt__

    def __mro_entries__(self, bases):
        return (StubBase,)

    def __instancecheck__(self, instance):
        return False

    def __subclasscheck__(self, cls):
        return False

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return "<placeholder for %s>" % self._stub_name

    def _operation(self, *others):
        return Stub(self._stub_name)


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    setattr(Stub, "__%s__" % _name, Stub._operation)
    setattr(Stub, "__r%s__" % _name, Stub._operation)
for _name in "neg pos abs invert".split():
    setattr(Stub, "__%s__" % _name, Stub._operation)


class StubBase:
    """Base of classes that a config derives from a placeholder."""

    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass


class DimKinds:
    Unspecified = None
    Batch = "batch"
    Spatial = "spatial"
    Time = "time"
    Feature = "feature"


class Dim:
    """An axis with identity. Two are the same if they are the same object or derived alike."""

    Types = DimKinds
    _numbers = itertools.count(1)

    def __init__(self, dimension=None, name=None, *args, kind=None, description=None, size=None, _id=None, **other):
        if isinstance(dimension, str):  # older argument order: kind, description, dimension
            kind, name, dimension = dimension, name, (args[0] if args else None)
        self.kind = kind
        self.dimension = dimension if dimension is not None else size
        self.name = name or description or "unnamed"
        self.id = _id or "%s#%d" % (self.name, next(Dim._numbers))
        known_dims[self.id] = self

    description = property(lambda self: self.name)
    size = property(lambda self: self.dimension)

    def is_dynamic(self):
        return self.dimension is None

    def copy(self, same_as_self=True, description=None, kind=None, **other):
        if same_as_self:
            return self
        return Dim(self.dimension, description or self.name, kind=kind or self.kind)

    def _derive(self, sign, other, function, reverse=False):
        sides = (other, self) if reverse else (self, other)
        names = [s.name if isinstance(s, Dim) else str(s) for s in sides]
        ids = [s.id if isinstance(s, Dim) else str(s) for s in sides]
        sizes = [s.dimension if isinstance(s, Dim) else s for s in sides]
        key = "(%s%s%s)" % (ids[0], sign, ids[1])
        if key in known_dims:
            return known_dims[key]
        size = None if None in sizes else function(*sizes)
        return Dim(size, "(%s%s%s)" % (names[0], sign, names[1]), kind=self.kind, _id=key)

    def __add__(self, other):
        return self if other == 0 else self._derive("+", other, lambda a, b: a + b)

    def __radd__(self, other):
        return self if other == 0 else self._derive("+", other, lambda a, b: a + b, reverse=True)

    def __sub__(self, other):
        return self if other == 0 else self._derive("-", other, lambda a, b: a - b)

    def __mul__(self, other):
        return self if other == 1 else self._derive("*", other, lambda a, b: a * b)

    def __rmul__(self, other):
        return self if other == 1 else self._derive("*", other, lambda a, b: a * b, reverse=True)

    def __floordiv__(self, other):
        return self if other == 1 else self._derive("//", other, lambda a, b: a // b)

    __truediv__ = __floordiv__

    def ceildiv_right(self, other):
        return self if other == 1 else self._derive("^/", other, lambda a, b: -(-a // b))

    def ceildiv_left(self, other):
        return self if other == 1 else self._derive("^/", other, lambda a, b: -(-a // b), reverse=True)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return Stub("Dim." + name)

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return "Dim(%r, %s)" % (self.name, self.dimension)


class DimensionTag(Dim):
    """The older name; its arguments come in another order."""

    def __init__(self, kind=None, description=None, dimension=None, **other):
        Dim.__init__(self, dimension, description, kind=kind, **other)


def SpatialDim(description, dimension=None, **other):
    return Dim(dimension, description, kind=DimKinds.Spatial, **other)


def FeatureDim(description, dimension=None, **other):
    return Dim(dimension, description, kind=DimKinds.Feature, **other)


def BatchDim(description="batch", **other):
    return batch_dim


class WrapEpochValue:
    """Stands in a network for the value of a function of the epoch."""

    def __init__(self, func):
        self.func = func

    def get_value(self, epoch):
        return self.func(epoch=epoch)

    def __call__(self, epoch):
        return self.func(epoch=epoch)


class ConfigView:
    """What get_global_config() gives to functions of a config."""

    def __init__(self, space):
        self.typed_dict = space

    def has(self, key):
        return key in self.typed_dict

    def typed_value(self, key, default=None, index=None):
        value = self.typed_dict.get(key, default)
        return value[index] if index is not None and isinstance(value, (list, tuple)) else value

    value = opt_typed_value = typed_value

    def _as(self, kind, key, default, index):
        value = self.typed_value(key, None, index)
        return default if value is None else kind(value)

    def bool(self, key, default, index=None):
        return self._as(bool, key, default, index)

    def int(self, key, default, index=None):
        return self._as(int, key, default, index)

    def float(self, key, default, index=None):
        return self._as(float, key, default, index)

    def list(self, key, default=None):
        value = self.typed_value(key)
        if value is None:
            return [] if default is None else default
        return list(value) if isinstance(value, (list, tuple)) else [value]

    int_list = float_list = list

    def is_true(self, key, default=False):
        return bool(self.typed_value(key, default))

    def is_of_type(self, key, kind):
        return isinstance(self.typed_value(key), kind)

    def set(self, key, value):
        self.typed_dict[key] = value


def get_global_config(*args, **kwargs):
    space = sys._getframe(1).f_globals
    return ConfigView(space if "__config_number__" in space else last_space)


def get_login_username():
    import getpass

    return getpass.getuser()


known_dims = {}
last_space = {}
batch_dim = Dim(None, "batch", kind=DimKinds.Batch, _id="batch")
HELPERS = {
    "Dim": Dim,
    "DimensionTag": DimensionTag,
    "SpatialDim": SpatialDim,
    "FeatureDim": FeatureDim,
    "BatchDim": BatchDim,
    "batch_dim": batch_dim,
    "WrapEpochValue": WrapEpochValue,
    "get_global_config": get_global_config,
    "get_login_username": get_login_username,
}


class StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name == "__version__":
            return "0"
        if name.startswith("__"):
            raise AttributeError(name)
        if not self.__name__.startswith("tensorflow") and name in HELPERS:
            return HELPERS[name]
        return Stub(self.__name__ + "." + name)


def is_asked_by_config():
    """Whether the import that is going on was written in the config or one of its own modules, not in a library."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<frozen importlib", STDLIB + "importlib")):
            return not (name.startswith((STDLIB, "<")) or "site-packages" in name or "dist-packages" in name)
        frame = frame.f_back
    return False


class StubFinder:
    """Finds modules that aren't there: in front of Python's own finders for some names, behind them for the rest."""

    def __init__(self, in_front):
        self.in_front = in_front

    def find_spec(self, name, path=None, target=None):
        parent = name.rpartition(".")[0]
        if self.in_front != (name.partition(".")[0] in ALWAYS_REPLACED):
            return None
        if parent and not isinstance(sys.modules.get(parent), StubModule):
            return None
        if not self.in_front and not is_asked_by_config():
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        replaced_modules.append(module.__name__)


sys.meta_path.insert(0, StubFinder(True))
sys.meta_path.append(StubFinder(False))


def describe(error, path):
    """One line: where in the config, what, and where below it if it happened in another file."""
    if isinstance(error, SyntaxError) and error.filename:
        return "%s:%s: %s: %s" % (error.filename, error.lineno, type(error).__name__, error.msg)
    if isinstance(error, SystemExit):
        text = "the config called sys.exit(%s)" % ("" if error.code is None else repr(error.code))
    else:
        text = " ".join("".join(traceback.format_exception_only(type(error), error)).split())
    frames = traceback.extract_tb(error.__traceback__)
    frames = [f for f in frames if not f.filename.startswith("<")]
    own = [f for f in frames if f.filename == path] if path else frames[:1]
    where = "%s:%s: " % (own[-1].filename, own[-1].lineno) if own else ("%s: " % path if path else "")
    if frames and (not own or frames[-1] is not own[-1]):
        where += "in %s:%s: " % (frames[-1].filename, frames[-1].lineno)
    return where + text


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def guarded(path, function, *args, **kwargs):
    """(0, result), or (1, text of the exception); 2 for a syntax error, 3 for an unknown name."""
    try:
        return 0, function(*args, **kwargs)
    except BaseException as error:  # SystemExit and KeyboardInterrupt must not end the program
        code = 2 if isinstance(error, SyntaxError) else 3 if isinstance(error, NameError) else 1
        return code, describe(error, path)
    finally:
        flush()


# ---- called from C ----

config_numbers = itertools.count(1)


def load_config(path, space, environment):
    """Run a config file in a new namespace, or in that of an earlier one. environment: texts "NAME=value"."""
    global last_space
    for text in environment:  # the program may have changed it since Python started
        name, _, value = text.partition("=")
        if name and os.environ.get(name) != value:
            os.environ[name] = value
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    if space is None:
        number = next(config_numbers)
        module = types.ModuleType("creturnn_config_%d" % number)
        sys.modules[module.__name__] = module
        space = module.__dict__
        space["__config_number__"] = number
    space["__file__"] = os.path.abspath(path)
    last_space = space

    def run():
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), space)

    code, text = guarded(path, run)
    return (code, text) if code else (0, space)


def forget_config(space):
    sys.modules.pop(space.get("__name__"), None)


def config_items(space):
    """Name, value, name, value ... of what a config defined."""
    out = []
    for name, value in space.items():
        if isinstance(name, str) and not name.startswith("__") and not isinstance(value, types.ModuleType):
            out += [name, value]
    return out


def evaluate(text, space):
    return guarded(None, lambda: eval(compile(text.strip(), "<option>", "eval", dont_inherit=True), space))


def call(function, args, kwargs):
    return guarded(None, function, *args, **kwargs)


def take_notes():
    tops = {name.partition(".")[0] for name in replaced_modules}
    replaced_modules.clear()
    return ", ".join(sorted(tops))


def sort_set(items):
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def flatten(shape, nested):
    for _ in shape[1:]:
        nested = itertools.chain.from_iterable(nested)
    return array.array("d", map(float, nested)).tobytes()


def unpack(obj):
    """What an object that is no plain Python value is: a tuple that starts with the name of the kind."""
    if isinstance(obj, Dim):
        return "dim", obj.name, obj.kind, -1 if obj.dimension is None else int(obj.dimension), obj.id
    if isinstance(obj, (set, frozenset)):
        return "set", sort_set(obj)
    if isinstance(obj, Stub):
        return "object", obj._stub_name
    if isinstance(obj, type):
        return "callable", obj.__name__
    if isinstance(obj, array.array):
        return "array", "float64" if obj.typecode in "fd" else "int64", (len(obj),), flatten((0,), obj)
    shape, dtype = getattr(obj, "shape", None), getattr(obj, "dtype", None)
    if isinstance(shape, tuple) and hasattr(dtype, "kind") and hasattr(obj, "tolist"):
        if not shape or dtype.kind not in "biuf":
            return "value", obj.tolist()
        return "array", str(dtype), tuple(map(int, shape)), obj.astype("float64").tobytes()
    if isinstance(obj, collections.abc.Mapping):
        return "value", dict(obj)
    if isinstance(obj, range) and obj[MAX_RANGE:]:
        return "object", "range"  # of so many numbers: not to be written out
    if isinstance(obj, (range, collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView)):
        return "value", list(obj)
    if isinstance(obj, os.PathLike):
        return "value", os.fspath(obj)
    if isinstance(obj, numbers.Real):
        return "value", float(obj)
    if callable(obj):
        return "callable", getattr(obj, "__name__", type(obj).__name__)
    return "object", type(obj).__name__


def make_dim(name, kind, size, key):
    return known_dims.get(key) or Dim(None if size < 0 else size, name, kind=kind, _id=key)


def make_array(dtype, shape, data):
    values = array.array("d", data)
    try:
        import numpy
    except ImportError:
        out = list(values) if "float" in dtype else [int(v) for v in values]
        for n in reversed(shape[1:]):
            out = [out[i : i + n] for i in range(0, len(out), n)]
        return out
    return numpy.array(values, dtype=dtype).reshape(shape)


def make_stub(name):
    return Stub(name)
