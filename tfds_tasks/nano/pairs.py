"""Two sentences.

Paraphrase, similarity and inference read the same pairs of a grammar of four slots:

    anna always helped ben / anna always aided ben    yes  5.0  yes
    anna always helped ben / anna often helped ben    no   5.0  yes
    anna always helped ben / anna never aided ben     no   5.0  no
    anna always helped ben / ben always helped anna   no   1.6  maybe

Word in context compares two uses of a word that is both an animal and a thing.
"""

from typing import Any

from tfds_tasks.nano.grammar import FRIENDLY, HOSTILE, NAMES, Draw, Text

SYNONYMS = FRIENDLY + HOSTILE
HOW_OFTEN = ("always", "often", "never")
YES, MAYBE, NO = 0, 1, 2  # entailment, neutral, contradiction
SIMILARITY = (0.0, 1.6, 3.4, 5.0)  # by the number of who, what and whom in common

ANIMAL_OR_THING = ("bat", "mouse", "crane", "seal", "mole", "ram")
OF_ANIMALS = ("hungry", "wild", "sleepy", "thirsty", "young")
OF_THINGS = ("broken", "cheap", "plastic", "rusty", "new")
HANDLING = ("sees", "finds", "wants", "draws")


def pair(draw: Draw) -> list[Text]:
    """Draws two sentences for paraphrase, similarity and inference."""
    first = _meaning(draw)
    second = _changed(draw, first)
    in_common = sum(first[slot] == second[slot] for slot in ("who", "what", "whom"))
    follows = _follows(first["how"], second["how"]) if in_common == 3 else MAYBE
    answers = {
        "paraphrase": int(first == second),
        "similarity": SIMILARITY[in_common],
        "inference": follows,
    }
    return [Text((_say(draw, first), _say(draw, second)), answers)]


def _meaning(draw: Draw) -> dict[str, Any]:
    who, whom = draw.several(NAMES, 2)
    how = draw.one(HOW_OFTEN)
    return {"who": who, "how": how, "what": draw.one(SYNONYMS), "whom": whom}


def _changed(draw: Draw, meaning: dict[str, Any]) -> dict[str, Any]:
    """The same meaning, or one that differs in how often, in roles or in slots."""
    kind = draw.below(10)
    if kind < 3:
        return meaning
    if kind < 6:
        return meaning | {"how": draw.other(HOW_OFTEN, meaning["how"])}
    if kind < 7:
        return meaning | {"who": meaning["whom"], "whom": meaning["who"]}
    who, whom = draw.several([n for n in NAMES if n not in meaning.values()], 2)
    new = {"who": who, "what": draw.other(SYNONYMS, meaning["what"]), "whom": whom}
    slots = draw.several(("who", "what", "whom"), kind - 6)
    return meaning | {slot: new[slot] for slot in slots}


def _follows(how: str, other_how: str) -> int:
    if how == other_how or (how, other_how) == ("always", "often"):
        return YES
    return NO if "never" in (how, other_how) else MAYBE


def _say(draw: Draw, meaning: dict[str, Any]) -> str:
    verb = draw.one(meaning["what"])
    return f"{meaning['who']} {meaning['how']} {verb} {meaning['whom']}"


def word_in_context(draw: Draw) -> list[Text]:
    """Draws two sentences with one word, an animal or a thing in each."""
    word = draw.one(ANIMAL_OR_THING)
    animal, same = draw.chance(0.5), draw.chance(0.5)
    sentences = [_use(draw, word, animal), _use(draw, word, animal == same)]
    return [Text((*sentences, word), {"word_in_context": int(same)})]


def _use(draw: Draw, word: str, animal: bool) -> str:
    trait = draw.one(OF_ANIMALS if animal else OF_THINGS)
    return f"{draw.one(NAMES)} {draw.one(HANDLING)} the {trait} {word}"
