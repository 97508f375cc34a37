"""Settings of Sphinx for the documentation site; ``make_site.py`` runs it."""

import os

project = "sbx-jupyter"
release = version = os.environ["SBX_VERSION"]
author = copyright = "the sbx-jupyter developers"
extensions = ["myst_parser"]

myst_heading_anchors = 4  # as on GitHub, so that links to headings work in both places
# drawings of bytes and terminals, and lines of settings without a language
highlight_language = "none"

html_theme = "pydata_sphinx_theme"
html_title = "sbx-jupyter"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "footer_start": [],
    "footer_end": [],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
}
