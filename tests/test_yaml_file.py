"""YAML within bounds: what is read, what is refused, and that files and options are read by the one loader."""

import pytest
import yaml

from hetjax.options import owners
from hetjax.options.command_line import parse
from hetjax.options.config import SECTIONS, as_dict, check_numbers
from hetjax.sharding import registry
from hetjax.system import yaml_file
from hetjax.system.errors import LONGEST, InputError, short
from tests.support.mutants import BOMB

REFUSED = {
    "bomb": (BOMB, "line 1, column 5: anchors and aliases are not read"),
    "nested": (1000 * "[", "nested over 32 deep"),
    "nested more": (100_000 * "[", "nested over 32 deep"),
    "digits": (f"a: {5000 * '9'}", "line 1, column 4: a number of 5000 characters, and 80 are read"),
    "digits of another base": (f"a: 0x{5000 * 'f'}", "a number of 5002 characters"),
    "minutes": (f"a: 1{2000 * ':59'}", "a number of 6001 characters"),
    "key twice": ("a: 1\nb: 2\na: 3", "line 3, column 1: the key 'a' is given twice"),
    "key twice inside": ("s: {k: 1, k: 1}", "the key 'k' is given twice"),
    "large": ("# " + "x" * yaml_file.LARGEST, "over 131072 characters"),
    "python": ("!!python/object/apply:os.getcwd []", "could not determine a constructor for the tag"),
    "not UTF-8": (b"\xff\xfe\xfa", "UnicodeDecodeError"),
    "no number": ("!!int x", "ValueError: invalid literal"),
    "unhashable": ("{[1]: 2}", "found unhashable key"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_exceeds_a_bound_is_one_short_line(name, tmp_path):
    text, message = REFUSED[name]
    file = tmp_path / "c.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as raised:
        yaml_file.read(file)
    words = str(raised.value)
    assert words.startswith(f"{file}: ") and message in words
    assert "\n" not in words and len(words) < len(str(file)) + LONGEST + 50


def test_plain_values_are_read(tmp_path):
    file = tmp_path / "c.yaml"
    for text, value in (("a: [1, 2.5, x, null, true]", {"a": [1, 2.5, "x", None, True]}), ("1e-3", 0.001), ("", None)):
        file.write_text(text)
        assert yaml_file.read(file) == value
    file.write_text("day: 2001-99-99\nsize: 5e\nrate: -1.e+5")
    assert yaml_file.read(file) == {"day": "2001-99-99", "size": "5e", "rate": -1e5}


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "c.yaml"
    sections = owners.all_sections()
    config = registry.config_of({name: section() for name, section in sections.items()})
    file.write_text(yaml.safe_dump(as_dict(config), sort_keys=False))
    assert yaml_file.read(file) == as_dict(config)
    made, _ = parse(sections, [f"--config={file}"], "x", "", {})
    assert registry.config_of(made) == config


@pytest.mark.parametrize("key", ["train.seed", "model.bias", "sampling.fanout", "model.name", "train.learning_rate"])
def test_options_are_read_within_the_same_bounds(key):
    """jsonargparse reads values of plain types by a loader that its public functions do not reach."""
    for value in (BOMB, 5000 * "9", 100_000 * "[", "{a: 1, a: 2}"):
        try:
            parse(SECTIONS, [f"--{key}={value}"], "x", "", {})
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 2 * LONGEST
        else:
            assert key == "model.name"  # any text is one


def test_numbers_beyond_64_bits_are_refused():
    for key, value in (
        ("sampling.fanout", f"[{10**30},2]"),
        ("train.epochs", 10**30),
        ("train.learning_rate", "1e400"),
    ):
        with pytest.raises(
            InputError,
            match=f"{key} is .*, and must be (a number of at most 64 bits|at most 3.4e+38)".replace("+", r"\+"),
        ):
            parse(SECTIONS, [f"--{key}={value}"], "x", "", {})
    for name, section in SECTIONS.items():
        check_numbers(name, section())


def test_short_texts_stay_and_long_ones_are_cut():
    assert short("a\nb  c") == "a b c" and short("x" * 500) == "x" * 500
    assert short("x" * 501) == "x" * 500 + "..." and short(" " * 3000 + "x", 10).strip(" x.") == ""
