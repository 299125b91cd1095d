"""How a model's `set_eagle3_layers_to_capture` turns layer ids into boundaries, read from the source alone."""

from helpers.source.setter.outcome import SETTER
from helpers.source.setter.reading import Resolution, resolve
from helpers.source.setter.traps import Trap
from helpers.source.setter.tree import SourceTree
from helpers.source.setter.values import Place

__all__ = ["SETTER", "Place", "Resolution", "SourceTree", "Trap", "resolve"]
