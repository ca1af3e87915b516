"""`make test-quick` takes a part of every file, by a rule that stays the same."""

from types import SimpleNamespace

from tests.conftest import QUICK_PER_FILE, quick_part


class Item(SimpleNamespace):
    """As much of a pytest item as the rule reads."""

    __hash__ = object.__hash__

    def get_closest_marker(self, name):
        return name in self.markers


def items(path, names, markers=()):
    return [
        Item(path=path, name=name, originalname=name.split("[")[0], markers=markers)
        for name in names
    ]


def names(kept):
    return sorted(f"{item.path}:{item.name}" for item in kept)


def test_the_first_case_of_what_is_not_slow():
    few = items("a", ["x[1]", "x[2]", "y"]) + items("a", ["z"], ["slow"])
    assert names(quick_part(few)) == ["a:x[1]", "a:y"]


def test_a_few_of_every_file_from_its_beginning_to_its_end():
    many = [f"t{i:02}" for i in range(8 * QUICK_PER_FILE)]
    kept = names(quick_part(items("a", many) + items("b", ["one"])))
    assert kept == [*(f"a:{name}" for name in many[::8]), "b:one"]
