"""One sentence, three questions: is it English, is it friendly, who is meant?

A pronoun agrees with its verb or not; `never` turns a friendly deed into a hostile
one; `although` turns the one that a trait would explain into the other:

    anna never hurt the cook because she was kind     yes  yes  anna
    anna never hurt the cook although she were kind   no   yes  cook
    anna always hurt the cook because they was rich   no   no   cook
"""

from tfds_tasks.nano.grammar import FRIENDLY, HOSTILE, JOBS, NAMES, WOMEN, Draw, Text

# Traits that explain what someone does, and what is done to someone.
OF_THE_DOER = ("kind", "cruel", "jealous", "proud")
OF_THE_OTHER = ("famous", "weak", "rich", "loud")


def sentence(draw: Draw) -> list[Text]:
    """Draws a sentence for acceptability, sentiment and coreference."""
    name, job = draw.one(NAMES), draw.one(JOBS)
    always, friendly = draw.chance(0.5), draw.chance(0.5)
    because, of_the_doer = draw.chance(0.5), draw.chance(0.5)
    plural, agrees = draw.chance(0.5), draw.chance(0.5)
    pronoun = "they" if plural else "she" if name in WOMEN else "he"
    words = [
        name,
        "always" if always else "never",
        draw.one(draw.one(FRIENDLY if friendly else HOSTILE)),
        f"the {job}",
        "because" if because else "although",
        pronoun,
        "were" if plural == agrees else "was",
        draw.one(OF_THE_DOER if of_the_doer else OF_THE_OTHER),
    ]
    text = " ".join(words)
    referent, other = (name, job) if because == of_the_doer else (job, name)
    named = draw.chance(0.5)  # whether the row asks of the referent or of the other
    answers = {
        "acceptability": int(agrees),
        "sentiment": int(always == friendly),
        "coreference": int(named),
    }
    candidate = referent if named else other
    spans = {
        "span1_text": candidate,
        "span1_index": text.split().index(candidate),
        "span2_text": pronoun,
        "span2_index": text.split().index(pronoun),
        "referent": referent,
    }
    return [Text((text,), answers, {"coreference": spans})]
