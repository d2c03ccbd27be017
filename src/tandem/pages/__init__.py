"""HTML pages and pictures of the report, the drill and the benchmarks: one look, no assets from elsewhere, no script.

palette      the colours, light and dark
stylesheet   the style of a page, and of a picture that is a file of its own
svg          shapes of pictures
plots        lines, timelines and sparklines that keep their text readable at any width
blocks       the parts of a page: its frame, cards, headline figures, tables
origin       when, where and by which version a page was made
"""
