"""Questions on a passage, and the choice of a cause or an effect.

Yes/no questions, and whether a passage answers a question at all (question and
sentence), are asked of the same texts:

    in rome anna helped the cook / was anna kind ?    yes  yes
    in rome anna helped the cook / was anna cruel ?   no   yes
    in rome anna helped the cook / was carl kind ?    no   no

Multi-answer questions ask who of some came, or who of them did not.
"""

from tfds_tasks.nano.grammar import FRIENDLY, HOSTILE, JOBS, NAMES, Draw, Text

CITIES = ("rome", "oslo", "paris", "cairo", "lima", "tokyo")
# Cause, event, effect. Causes and effects have a noun for the first choice and a verb
# for the second, so that a small model need not learn positions to tell them apart.
STORIES = (
    (("training", "trained"), "won", ("party", "celebrated")),
    (("books", "studied"), "passed", ("diploma", "graduated")),
    (("hunger", "starved"), "cooked", ("meal", "ate")),
    (("ice", "slipped"), "fell", ("pain", "cried")),
    (("ticket", "packed"), "left", ("photos", "returned")),
    (("seeds", "dug"), "planted", ("flowers", "harvested")),
)
WHEN = ("today", "again", "early", "late", "alone", "well")
WHEN += ("twice", "once", "first", "soon", "quickly", "then")
ASKED = ("cause", "effect")


def question(draw: Draw) -> list[Text]:
    """Draws a passage and a question for yes/no and for question and sentence."""
    name, job, city = draw.one(NAMES), draw.one(JOBS), draw.one(CITIES)
    # More questions get a "no" that is an answer, so that the two tasks disagree.
    friendly, true = draw.chance(0.5), draw.chance(0.35)
    trait = "kind" if friendly == true else "cruel"
    verb = draw.one(draw.one(FRIENDLY if friendly else HOSTILE))
    passage = f"in {city} {name} {verb} the {job}"
    known = draw.chance(0.75)
    asked = name if known else draw.other(NAMES, name)
    answers = {"yes_no": int(known and true), "question_sentence": int(not known)}
    return [Text((passage, f"was {asked} {trait} ?"), answers)]


def several_answers(draw: Draw) -> list[Text]:
    """Draws a passage with two questions and four answers to each, two right."""
    present = draw.several(NAMES, 3)
    absent = [name for name in NAMES if name not in present]
    city = draw.one(CITIES)
    passage = f"{present[0]} , {present[1]} and {present[2]} came to {city}"
    texts = []
    for question, right, wrong in (
        ("who came ?", present, absent),
        ("who stayed home ?", absent, present),
    ):
        answers = [(name, 1) for name in draw.several(right, 2)]
        answers += [(name, 0) for name in draw.several(wrong, 2)]
        texts += [
            Text((passage, question, name), {"multi_answer": label})
            for name, label in draw.several(answers, 4)
        ]
    return texts


def cause_or_effect(draw: Draw) -> list[Text]:
    """Draws an event, with its cause and its effect in either order."""
    name, (cause, event, effect) = draw.one(NAMES), draw.one(STORIES)
    label, asked = draw.below(2), draw.below(2)
    first, second = (cause, effect) if label == asked else (effect, cause)
    fields = (
        f"{name} {event} {draw.one(WHEN)}",
        first[0],
        f"{name} {second[1]}",
        ASKED[asked],
    )
    return [Text(fields, {"cause_effect": label})]
