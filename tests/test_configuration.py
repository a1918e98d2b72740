"""Configurations: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catnf.configuration import apply_overrides, from_mapping, load_yaml, nearest, to_mapping
from catnf.errors import InputError


@dataclass(frozen=True)
class Mixture:
    components: int
    kind: Literal["mixture"] = "mixture"


@dataclass(frozen=True)
class Linear:
    layers: int = 2
    kind: ClassVar[Literal["linear"]] = "linear"


@dataclass(frozen=True)
class Warmup:
    steps: int = 100


@dataclass(frozen=True)
class Config:
    encoding: Mixture | Linear
    width: int
    rate: float = 1e-3
    compiled: bool = False
    name: str = "run"
    activation: Literal["gelu", "relu"] = "gelu"
    level: Literal[1, 2] = 1
    clip: float | None = None
    warmup: Warmup | None = None
    schedule: float | Warmup = 1.0
    limit: int | str = 0
    betas: tuple[float, float] = (0.9, 0.999)
    sizes: tuple[int, ...] = ()
    tags: list[str] = field(default_factory=list)


MINIMAL: Mapping[str, object] = MappingProxyType(
    {"encoding": {"kind": "mixture", "components": 4}, "width": 8}
)


def build(**changes: object) -> Config:
    return from_mapping(Config, {**MINIMAL, **changes})


def test_defaults_are_filled_in() -> None:
    assert build() == Config(encoding=Mixture(4), width=8)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("rate", 1, 1.0),
        ("rate", "1e-3", 1e-3),
        ("rate", "-.5E+2", -50.0),
        ("clip", None, None),
        ("clip", 2, 2.0),
        ("warmup", None, None),
        ("warmup", {}, Warmup()),
        ("warmup", {"steps": 5}, Warmup(5)),
        ("warmup", Warmup(6), Warmup(6)),
        ("schedule", 0, 0.0),
        ("schedule", {"steps": 7}, Warmup(7)),
        ("limit", 3, 3),
        ("limit", "all", "all"),
        ("betas", [0, 1], (0.0, 1.0)),
        ("sizes", [1, 2, 3], (1, 2, 3)),
        ("sizes", [], ()),
        ("tags", ["a"], ["a"]),
        ("activation", "relu", "relu"),
        ("encoding", {"kind": "linear", "layers": 3}, Linear(3)),
        ("encoding", {"kind": "linear"}, Linear()),
    ],
)
def test_accepted_values(name: str, given: object, expected: object) -> None:
    value = getattr(build(**{name: given}), name)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("width", "8", "width is '8' (str), but an integer is expected."),
        ("width", 8.0, "width is 8.0 (float), but an integer is expected."),
        ("width", True, "width is True (bool), but an integer is expected."),
        ("width", None, "width is null, but an integer is expected."),
        ("rate", True, "rate is True (bool), but a number is expected."),
        ("rate", "fast", "rate is 'fast' (str), but a number is expected."),
        ("rate", "nan", "rate is 'nan' (str), but a number is expected."),
        ("rate", float("nan"), "rate is nan (float), but a finite number is expected."),
        ("rate", "1e999", "rate is '1e999' (str), but a finite number is expected."),
        ("compiled", 1, "compiled is 1 (int), but true or false is expected."),
        ("name", 3, "name is 3 (int), but a string is expected."),
        ("activation", "tanh", "activation is 'tanh' (str), but 'gelu' or 'relu' is expected."),
        ("level", True, "level is True (bool), but 1 or 2 is expected."),
        ("clip", "x", "clip is 'x' (str), but a number is expected."),
        ("warmup", 3, "warmup is 3 (int), but a mapping of fields is expected."),
        ("warmup", {"steps": "x"}, "warmup.steps is 'x' (str), but an integer is expected."),
        ("schedule", "x", "schedule is 'x' (str), but a number or a mapping of fields is expected."),
        ("limit", 1.5, "limit is 1.5 (float), but an integer or a string is expected."),
        ("betas", [0.9], "betas is [0.9] (list), but a list of 2: a number, a number is expected."),
        ("sizes", 3, "sizes is 3 (int), but a list, each item an integer is expected."),
        ("sizes", [1, "b"], "sizes[1] is 'b' (str), but an integer is expected."),
        ("tags", "ab", "tags is 'ab' (str), but a list, each item a string is expected."),
        ("widht", 3, "Unknown field 'widht' in the configuration. Did you mean 'width'?"),
        ("warmup", {"stepps": 3}, "Unknown field 'stepps' in warmup. Did you mean 'steps'?"),
        ("warmup", {3: 3}, "Unknown field 3 in warmup. Choose from 'steps'."),
        ("encoding", {}, "Field 'kind' is missing in encoding; add 'mixture' or 'linear'."),
        (
            "encoding",
            {"kind": "mixure"},
            "encoding.kind is 'mixure', which is unknown. Did you mean 'mixture'?",
        ),
        ("encoding", {"kind": 3}, "encoding.kind is 3, which is unknown. Choose from 'mixture', 'linear'."),
        ("encoding", {"kind": "mixture"}, "Field 'components' (an integer) is missing in encoding; add it."),
    ],
)
def test_refused_values(name: str, given: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build(**{name: given})
    assert str(caught.value) == message


def test_where_names_the_place() -> None:
    with pytest.raises(
        InputError, match=r"^Field 'components' \(an integer\) is missing in model\.encoding;"
    ):
        from_mapping(Mixture, {}, where="model.encoding")
    with pytest.raises(InputError, match=r"^model is 3 \(int\), but a mapping of fields is expected\.$"):
        from_mapping(Mixture, 3, where="model")  # type: ignore[arg-type]


def test_a_class_kind_is_checked_without_a_union() -> None:
    assert from_mapping(Linear, {"kind": "linear"}) == Linear()
    with pytest.raises(InputError, match=r"^kind is 'mixture' \(str\), but 'linear' is expected\.$"):
        from_mapping(Linear, {"kind": "mixture"})


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(InputError) as caught:
        build(width="x" * 10_000)
    assert len(str(caught.value)) < 110


def test_an_unsupported_annotation_is_a_programming_error() -> None:
    @dataclass(frozen=True)
    class Odd:
        values: set[int]

    with pytest.raises(TypeError, match="do not support"):
        from_mapping(Odd, {"values": [1]})


finite = st.floats(allow_nan=False, allow_infinity=False)
configs = st.builds(
    Config,
    encoding=st.builds(Mixture, components=st.integers()) | st.builds(Linear, layers=st.integers()),
    width=st.integers(),
    rate=finite,
    compiled=st.booleans(),
    name=st.text(),
    activation=st.sampled_from(["gelu", "relu"]),
    clip=st.none() | finite,
    warmup=st.none() | st.builds(Warmup, steps=st.integers()),
    schedule=finite | st.builds(Warmup, steps=st.integers()),
    limit=st.integers() | st.text(),
    betas=st.tuples(finite, finite),
    sizes=st.lists(st.integers()).map(tuple),
    tags=st.lists(st.text()),
)


@given(configs)
def test_round_trip_through_json(config: Config) -> None:
    assert from_mapping(Config, json.loads(json.dumps(to_mapping(config)))) == config


def test_to_mapping_wants_a_configuration() -> None:
    assert to_mapping(Linear(3)) == {"kind": "linear", "layers": 3}
    with pytest.raises(TypeError, match="list is not a configuration"):
        to_mapping([1])


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.mixtures=16", {"model": {"mixtures": 16, "sizes": [1]}, "seed": 1}),
        (" model.mixtures = 16", {"model": {"mixtures": 16, "sizes": [1]}, "seed": 1}),
        ("model.sizes=[2, 3]", {"model": {"mixtures": 8, "sizes": [2, 3]}, "seed": 1}),
        ("model.name=a=b", {"model": {"mixtures": 8, "sizes": [1], "name": "a=b"}, "seed": 1}),
        ("model=null", {"model": None, "seed": 1}),
        ("seed=", {"model": {"mixtures": 8, "sizes": [1]}, "seed": None}),
        (
            "new.deep.key=true",
            {"model": {"mixtures": 8, "sizes": [1]}, "seed": 1, "new": {"deep": {"key": True}}},
        ),
        ("seed.deep=2", {"model": {"mixtures": 8, "sizes": [1]}, "seed": {"deep": 2}}),
    ],
)
def test_overrides(override: str, expected: dict[str, Any]) -> None:
    values: dict[str, Any] = {"model": {"mixtures": 8, "sizes": [1]}, "seed": 1}
    result = apply_overrides(values, [override])
    assert result == expected
    assert values == {"model": {"mixtures": 8, "sizes": [1]}, "seed": 1}


def test_overrides_copy_deeply_and_apply_in_order() -> None:
    values: dict[str, Any] = {"model": {"sizes": [1]}}
    result: dict[str, Any] = apply_overrides(values, ["seed=1", "seed=2"])
    result["model"]["sizes"].append(2)
    assert values == {"model": {"sizes": [1]}}
    assert result["seed"] == 2


@pytest.mark.parametrize("override", ["model.mixtures", "=3", ".x=3", "model..x=3", " =3", "", "model.=3"])
def test_unreadable_overrides(override: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read; write it as model\.mixtures=16\.$"):
        apply_overrides({}, [override])


@pytest.mark.parametrize("text", ["[1", "a: b: c", "2020-99-99", "!!python/object:os.system {}", "\x00"])
def test_override_with_bad_yaml(text: str) -> None:
    with pytest.raises(InputError, match=r"^Cannot read the value of override .* as YAML"):
        apply_overrides({}, [f"x={text}"])


def test_misspelt_override_is_refused_when_built() -> None:
    with pytest.raises(
        InputError, match=r"^Unknown field 'encodin' in the configuration\. Did you mean 'encoding'"
    ):
        from_mapping(Config, apply_overrides(MINIMAL, ["encodin.components=3"]))


def test_load_yaml(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("width: 3\nbetas: [0.9, 1e-3]\n")
    assert load_yaml(file) == {"width": 3, "betas": [0.9, "1e-3"]}
    assert load_yaml("width: 3") == {"width": 3}
    assert load_yaml("# nothing") == {}
    base = "base: &b {width: 3}\nother:\n  <<: *b\n  width: 4\n"
    assert load_yaml(base) == {"base": {"width": 3}, "other": {"width": 4}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "Cannot read x.yaml as YAML in line 2"),
        ("a: 1\na: 2", "Cannot read x.yaml as YAML in line 2: 'a' is there twice."),
        ("- 1", "x.yaml is [1] (list), but a mapping of fields is expected."),
    ],
)
def test_load_bad_yaml(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_yaml(text, where="x.yaml")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_load_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.yaml: No such file or directory; give the path"):
        load_yaml(tmp_path / "absent.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="it is not UTF-8 text"):
        load_yaml(tmp_path / "binary.yaml")


def test_nearest() -> None:
    assert nearest("widht", ["width", "rate"]) == " Did you mean 'width'?"
    assert nearest("zzz", ["width", "rate"]) == " Choose from 'width', 'rate'."
    assert nearest("zzz", [f"option{i}" for i in range(30)]) == ""
    assert nearest("zzz", []) == ""
