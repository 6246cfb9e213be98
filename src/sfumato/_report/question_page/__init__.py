"""The page that answers: one file with a release in it, which counts in a browser, without any network.

It is made from a release alone, and holds nothing that the release does not hold. How a browser counts is for each
method to say (its `twin`); this page only selects records and shows what is found.
"""

from sfumato._report.question_page.page_file import QuestionPage, make_question_page

__all__ = ["QuestionPage", "make_question_page"]
