"""Looking into models: parameter counts."""

from hypertf.analysis.parameters import Parameters, parameters

__all__ = ["Parameters", "parameters"]
