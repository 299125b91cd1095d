"""For multimodal/internvl_utils.py:5."""

from enum import Enum


class InterpolationMode(Enum):
    """How an image would be scaled."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
