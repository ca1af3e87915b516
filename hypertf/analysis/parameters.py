"""How many parameters a model has, what trains, and what a method adds."""

import dataclasses
import math

from hypertf.t5 import T5, named_weights

PARTS = ("embeddings", "encoder", "decoder", "norms", "conditioner")


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Counts by part of the model: {part: (parameters, of them trained)}.

    Print it for the table.
    """

    parts: dict
    num_tasks: int | None = None

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(count for count, _ in self.parts.values())

    @property
    def trained(self) -> int:
        """The parameters that training changes."""
        return sum(trained for _, trained in self.parts.values())

    @property
    def added(self) -> int:
        """What the conditioner adds to the plain T5."""
        return self.parts["conditioner"][0]

    @property
    def plain(self) -> int:
        """The parameters of the T5 without its conditioner."""
        return self.total - self.added

    @property
    def times(self) -> float:
        """The size relative to the plain T5, as the papers' "1.02x"."""
        return self.total / self.plain

    @property
    def trained_per_task(self) -> float:
        """Trained parameters over tasks, relative to the plain T5."""
        return self.trained / self.plain / (self.num_tasks or 1)

    def __str__(self) -> str:
        lines = [f"{'part':<14}{'parameters':>16}{'trained':>16}"]
        lines.append("-" * len(lines[0]))
        for part, (count, trained) in self.parts.items():
            lines.append(f"{part:<14}{count:>16,}{trained:>16,}")
        lines.append(f"{'all':<14}{self.total:>16,}{self.trained:>16,}")
        lines.append(
            f"{self.times:.4g} times the plain T5; trained: "
            f"{self.trained / self.plain:.2%} of it"
            + (f", {self.trained_per_task:.2%} a task" if self.num_tasks else "")
        )
        return "\n".join(lines)


def parameters(model: T5) -> Parameters:
    """Counts the parameters of a `hypertf.T5` by part.

    ```python
    with hypertf.t5.Unallocated():  # needs no memory, whatever the size
        model = hypertf.T5(hypertf.T5Config.from_name("t5-base"))
    print(hypertf.analysis.parameters(model))
    ```
    """
    mine = set()
    if model.conditioner is not None:
        mine = {id(weight) for weight in model.conditioner.weights}
    trained = {id(weight) for weight in model.trainable_variables}
    parts = {part: (0, 0) for part in PARTS}
    for name, weight in named_weights(model).items():
        part = "conditioner" if id(weight) in mine else _part(name)
        if name.split("/")[-1].startswith("seed_generator_state"):
            continue
        count, of_them = parts[part]
        size = math.prod(weight.shape)
        parts[part] = (count + size, of_them + (size if id(weight) in trained else 0))
    conditioner = model.conditioner
    return Parameters(parts, None if conditioner is None else conditioner.num_tasks)


def _part(name):
    if name.endswith("rms_norm/scale"):
        return "norms"
    stack = name.split("/")[0]
    if stack == "shared" or name.startswith("decoder/logits"):
        return "embeddings"
    return stack
