"""Keeps formulas in untrusted text from acting in the page.

Notebooks draw formulas with MathJax, in results of LaTeX and wherever HTML has dollar signs. Some
of its macros make links, set styles that cover the page, or have a style load something.
"""

from __future__ import annotations

import html
import re
from typing import Final

UNDRAWN: Final = "mathjax_ignore tex2jax_ignore"
"""CSS classes of elements in which no version of MathJax looks for formulas."""

# Macros for links, styles, ids and extensions; and for new macros, which stay for the whole page.
_ACTIVE: Final = re.compile(
    r"\\(href|url|style|class|cssId|data|html[A-Za-z]*|mmlToken|bbox|unicode|includegraphics|"
    r"require|setOptions|mathtoolsset|(g|e|x)?def|(future)?let|(re)?new[A-Za-z]+|"
    r"provide[A-Za-z]+|Declare[A-Za-z]+|Newextarrow)(?![A-Za-z])"
)


def can_act(text: str) -> bool:
    """Whether a formula in a text could do more than be drawn."""
    return _ACTIVE.search(text) is not None


def guarded(untrusted: str) -> str:
    """HTML whose formulas are drawn unless one of them could act."""
    return undrawn(untrusted) if can_act(html.unescape(untrusted)) else untrusted


def undrawn(untrusted: str) -> str:
    """HTML in which dollar signs are text."""
    return f'<div class="{UNDRAWN}">{untrusted}</div>'
