"""Source: the checkout of SGLang that a box serves from, and patches of it."""

from __future__ import annotations

from helpers.source.checkout import Checkout as Checkout
from helpers.source.checkout import find_checkout as find_checkout
