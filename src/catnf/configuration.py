"""Typed configurations: frozen dataclasses built from plain mappings, such as YAML files.

A configuration is a dataclass whose fields are scalars, tuples of scalars, or further configurations.
Where a field can be one of several configurations, each of them has a `kind: Literal["..."]` that tells
which one is meant.

>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Coupling:
...     mixtures: int
...     dropout: float = 0.0
>>> from_mapping(Coupling, apply_overrides({"mixtures": 8}, ["dropout=1e-1"]))
Coupling(mixtures=8, dropout=0.1)
>>> from_mapping(Coupling, {"mixturs": 8})
Traceback (most recent call last):
    ...
catnf.errors.InputError: Unknown field 'mixturs' in the configuration. Did you mean 'mixtures'?
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from reprlib import repr as shorten
from typing import Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import yaml

from catnf.errors import InputError

T = TypeVar("T")

_SCALARS: dict[object, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    type(None): "null",
}
# YAML 1.1 reads 1e-3 as a string because the point is missing.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SHORT = 8  # so many options fit in a sentence


def from_mapping(cls: type[T], values: Mapping[str, object], where: str = "") -> T:
    """Build the dataclass `cls` from `values`, nested dataclasses included.

    Types are checked and kept, except that a float also takes an integer or a string such as "1e-3", and
    tuples are made from lists. An unknown, missing or ill-typed field is an `InputError`.

    Args:
        cls: a dataclass.
        values: one value for every field; those with a default may be left out.
        where: the dotted path of this configuration, for error messages.
    """
    if not isinstance(values, Mapping):
        raise _wrong(values, "a mapping of fields", where)
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cast(Any, cls)) if field.init}
    kind = _class_kind(cls)
    given = dict(values)
    place, prefix = where or "the configuration", f"{where}." if where else ""
    if kind is not None and given.pop("kind", kind) != kind:
        raise _wrong(values["kind"], repr(kind), prefix + "kind")
    for name in given:
        if name not in fields:
            raise InputError(f"Unknown field {shorten(name)} in {place}.{nearest(str(name), fields)}")
    arguments = {}
    for name, field in fields.items():
        if name in given:
            arguments[name] = _convert(given[name], hints[name], prefix + name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InputError(f"Field '{name}' ({_describe(hints[name])}) is missing in {place}; add it.")
    return cls(**arguments)


def to_mapping(config: object) -> dict[str, object]:
    """The inverse of `from_mapping`: plain dictionaries, lists and scalars, ready for JSON."""
    plain = _plain(config)
    if not isinstance(plain, dict):
        raise TypeError(f"{type(config).__name__} is not a configuration dataclass")
    return plain


def apply_overrides(values: Mapping[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """A deep copy of `values` with overrides such as `"model.mixtures=16"` applied in order.

    The text behind the equals sign is read as YAML. Names are not checked here: `from_mapping` refuses
    those that do not exist.
    """
    result = cast("dict[str, object]", _plain(values))
    for override in overrides:
        key, equals, text = override.partition("=")
        path = [part.strip() for part in key.split(".")]
        if not equals or not all(path):
            raise InputError(f"Override {override!r} cannot be read; write it as model.mixtures=16.")
        node = result
        for part in path[:-1]:
            below = node.get(part)
            if not isinstance(below, dict):
                below = node[part] = {}
            node = below
        node[path[-1]] = _parse(text, f"the value of override {override!r}")
    return result


def as_override(field: str, value: object) -> str:
    """An override that sets a field, on one line; numbers, colons and emojis in texts are quoted.

    >>> as_override("task.source", "a: 1.npz")
    'task.source="a: 1.npz"'
    """
    text = (
        yaml.safe_dump(value, default_style='"', width=math.inf)
        if isinstance(value, str)
        else json.dumps(value)
    )
    return f"{field}={text.strip()}"


def load_yaml(source: str | Path, where: str = "") -> dict[str, object]:
    """The mapping in a YAML file, given as a `Path`, or in a text, which error messages call `where`."""
    if isinstance(source, Path):
        where = str(source)
        try:
            source = source.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"Cannot read {where}: {reason}; give the path of a YAML file.") from error
    values = _parse(source, where or "the text")
    if values is None:  # an empty document
        return {}
    if not isinstance(values, dict):
        raise _wrong(values, "a mapping of fields", where or "The text")
    return values


def nearest(name: str, options: Iterable[str]) -> str:
    """A sentence to append to an error about an unknown `name`: the closest option, else all if they are few.

    >>> nearest("mixtrue", ["mixture", "linear"])
    " Did you mean 'mixture'?"
    >>> nearest("discrete", ["mixture", "linear"])
    " Choose from 'mixture', 'linear'."
    """
    names = list(options)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f" Did you mean {close[0]!r}?"
    return f" Choose from {', '.join(map(repr, names))}." if 0 < len(names) <= _SHORT else ""


def _convert(value: object, annotation: Any, where: str) -> object:
    """`value` as `annotation` asks for it, or an `InputError`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _SCALARS:
        return _convert_scalar(value, annotation, where)
    if dataclasses.is_dataclass(annotation):
        return _convert_dataclass(value, (cast("type[object]", annotation),), where)
    if origin is Literal:
        # 1 == True, so that types are compared as well.
        if not any(type(value) is type(option) and value == option for option in arguments):
            raise _wrong(value, _describe(annotation), where)
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, annotation, where)
    if origin in (tuple, list):
        return _convert_sequence(value, annotation, where)
    raise TypeError(f"{where} is annotated {annotation}, which configurations do not support")


def _convert_scalar(value: object, annotation: type, where: str) -> object:
    if annotation is not float and type(value) is annotation:
        return value
    is_number = type(value) in (int, float) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    if annotation is not float or not is_number:
        raise _wrong(value, _SCALARS[annotation], where)
    try:
        number = float(cast("int | float | str", value))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):  # JSON has no infinity, and NaN is never meant
        raise _wrong(value, "a finite number", where)
    return number


def _convert_sequence(value: object, annotation: Any, where: str) -> object:
    origin, inner = get_origin(annotation), get_args(annotation)
    if not isinstance(value, list | tuple):
        raise _wrong(value, _describe(annotation), where)
    if origin is tuple and inner[-1:] != (...,):
        if len(value) != len(inner):
            raise _wrong(value, _describe(annotation), where)
    else:
        inner = (inner[0],) * len(value)
    pairs = enumerate(zip(value, inner, strict=True))
    return origin(_convert(item, kind, f"{where}[{index}]") for index, (item, kind) in pairs)


def _convert_union(value: object, annotation: Any, where: str) -> object:
    options: tuple[Any, ...] = get_args(annotation)
    if value is None and type(None) in options:
        return None
    classes: tuple[Any, ...] = tuple(option for option in options if dataclasses.is_dataclass(option))
    others = [option for option in options if option not in classes and option is not type(None)]
    if classes and (not others or isinstance(value, Mapping) or dataclasses.is_dataclass(value)):
        return _convert_dataclass(value, classes, where)
    if len(others) == 1 and not classes:
        return _convert(value, others[0], where)
    for option in sorted(others, key=lambda option: option is float):  # float last: it alone coerces
        try:
            return _convert(value, option, where)
        except InputError:
            continue
    raise _wrong(value, _describe(annotation), where)


def _convert_dataclass(value: object, classes: tuple[type[object], ...], where: str) -> object:
    """Build the one of `classes` whose kind `value` names."""
    if isinstance(value, classes):
        return value
    if not isinstance(value, Mapping):
        raise _wrong(value, "a mapping of fields", where)
    if len(classes) == 1:
        return from_mapping(classes[0], value, where)
    by_kind = {kind: cls for cls in classes for kind in _kinds(cls)}
    if "kind" not in value:
        raise InputError(f"Field 'kind' is missing in {where}; add {' or '.join(map(repr, by_kind))}.")
    kind = value["kind"]
    if not isinstance(kind, str) or kind not in by_kind:
        raise InputError(f"{where}.kind is {shorten(kind)}, which is unknown.{nearest(str(kind), by_kind)}")
    return from_mapping(by_kind[kind], value, where)


def _kinds(cls: type[object]) -> tuple[str, ...]:
    """The kinds that stand for a configuration: its `Literal` field or class variable named `kind`."""
    annotation = get_type_hints(cls).get("kind")
    if get_origin(annotation) is ClassVar:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is not Literal:
        raise TypeError(f"{cls.__name__} is one of several configurations and needs kind: Literal['...']")
    return get_args(annotation)


def _class_kind(cls: type[object]) -> str | None:
    """The `kind` of a configuration that has it as a class variable, which is not a dataclass field."""
    is_field = any(field.name == "kind" for field in dataclasses.fields(cast(Any, cls)))
    kind = None if is_field else getattr(cls, "kind", None)
    return kind if isinstance(kind, str) else None


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = _class_kind(type(value))
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return fields if kind is None else {"kind": kind, **fields}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


class _Loader(yaml.SafeLoader):
    """Plain YAML values only, and no key twice, of which PyYAML would silently drop one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for index, key in enumerate(keys):
            if any(key.value == other.value for other in keys[:index]):
                problem = f"{key.value!r} is there twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
        return super().construct_mapping(node, deep)


def _parse(text: str, where: str) -> Any:
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise InputError(f"Cannot read {where} as YAML{line}: {problem}.") from error


def _describe(annotation: Any) -> str:
    """What a field takes, in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if origin is Literal:
        return " or ".join(map(repr, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(_describe, arguments)))
    if origin is list or arguments[-1:] == (...,):
        return f"a list, each item {_describe(arguments[0])}"
    if origin is tuple:
        return f"a list of {len(arguments)}: {', '.join(map(_describe, arguments))}"
    return "a mapping of fields"


def _wrong(value: object, expected: str, where: str) -> InputError:
    given = "null" if value is None else f"{shorten(value)} ({type(value).__name__})"
    return InputError(f"{where or 'The configuration'} is {given}, but {expected} is expected.")
