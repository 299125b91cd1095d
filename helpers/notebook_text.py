"""How a result shows itself in a notebook: in its own words, and not as the fields of its record."""

from __future__ import annotations

from html import escape


class Worded:
    """A result whose ``str`` is meant for people; a notebook shows that, and its ``repr`` stays for debugging.

    >>> class Sum(Worded):
    ...     def __str__(self) -> str:
    ...         return "1 < 2"
    >>> Sum()._repr_html_()
    '<div>1 &lt; 2</div>'
    """

    def _repr_html_(self) -> str:
        return f"<div>{'<br>'.join(map(escape, str(self).splitlines()))}</div>"
