"""`report.html`: what a run did, on one page that needs no network and no other file."""

from hetjax.results.report.page import FILE, Told, write

__all__ = ["FILE", "Told", "write"]
