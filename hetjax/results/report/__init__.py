"""`report.html`: what a run did, on one page that needs no network and no other file."""

from hetjax.results.report.page import FILE, ReportInputs, write

__all__ = ["FILE", "ReportInputs", "write"]
