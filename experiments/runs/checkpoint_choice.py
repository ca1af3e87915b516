"""Which checkpoint of a run is meant by "best", "latest" or a number."""

from experiments.runs.eval_results import SELECTION, Results
from hypertf.training import checkpoint_steps


def chosen_step(model_dir: str, checkpoint: str | int) -> tuple[int, str]:
    """The step that is asked for, and why it is this one."""
    steps = checkpoint_steps(model_dir)
    if not steps:
        raise ValueError(f"{model_dir} has no checkpoint")
    if checkpoint == "latest":
        return steps[-1], "the newest"
    if checkpoint == "best":
        scored = Results(model_dir, SELECTION)
        if not set(scored.scores) & set(steps):
            return steps[-1], "the newest; none is scored"
        best = scored.best_step()
        if best not in steps:
            raise ValueError(
                f"checkpoint='best': step {best} is gone; expected one of "
                f"{', '.join(map(str, steps))}"
            )
        return best, f"the best on {SELECTION}"
    if not str(checkpoint).isdigit() or int(checkpoint) not in steps:
        raise ValueError(
            f"checkpoint={checkpoint!r}, expected best, latest or one of "
            f"{', '.join(map(str, steps))}"
        )
    return int(checkpoint), "as asked"
