"""Source: the checkout of SGLang that a box serves from: searched, shown, compared; and patches of it."""

from __future__ import annotations

from helpers.source.archaeology import Sites as Sites
from helpers.source.archaeology import grep as grep
from helpers.source.archaeology import show as show
from helpers.source.archaeology import where_is as where_is
from helpers.source.checkout import Checkout as Checkout
from helpers.source.checkout import find_checkout as find_checkout
from helpers.source.comparison import FileDiff as FileDiff
from helpers.source.comparison import diff as diff
from helpers.source.excerpts import Excerpt as Excerpt
from helpers.source.imported import served_checkout as served_checkout
