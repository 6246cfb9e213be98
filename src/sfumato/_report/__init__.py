"""Writes pages as files: the page that answers questions, and any document as HTML."""

from sfumato._report.question_page import QuestionPage, make_question_page
from sfumato._report.saved_page import check_place, save

__all__ = ["QuestionPage", "check_place", "make_question_page", "save"]
