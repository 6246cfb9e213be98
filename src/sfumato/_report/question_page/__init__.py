"""Makes the page that answers questions.

The page is one file with a release inside, and counts in a browser without a network.

The page is made from a release alone, and contains no other data. Each mechanism has its own estimator for browsers
(its `twin`). The page itself only selects records and shows answers.
"""

from sfumato._report.question_page.page_file import QuestionPage, make_question_page

__all__ = ["QuestionPage", "make_question_page"]
