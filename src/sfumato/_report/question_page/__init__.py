"""The page that answers questions: one file with a release in it, which counts in a browser without a network.

It is made from a release alone and contains nothing else. Each method brings its own browser estimator (its `twin`);
this page only selects records and shows the answers.
"""

from sfumato._report.question_page.page_file import QuestionPage, make_question_page

__all__ = ["QuestionPage", "make_question_page"]
