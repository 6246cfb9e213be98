"""The type checker refuses a mechanism whose plan is for another request than it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
SNIPPET = """\
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._randomized_response.estimators import ONE_CELL
from sfumato.mechanisms.mechanism import Mechanism, NoOptions
from sfumato._request.guarantee import Guarantee
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato._request.belief_bounds import BreachBound

Mechanism(
    name="other",
    guarantee=Guarantee.ANY_PRIOR,
    spec={spec},
    options=NoOptions,
    plan=uniform.plan,
    replace=uniform.replace,
    design=uniform.design,
    read_design=uniform.read_design,
    shown=uniform.make_encoding,
    methods=ONE_CELL,
    promise=uniform.state_guarantee,
)
"""


@pytest.mark.full  # the whole package is read anew, which takes half a minute; `make check` reads it too
@pytest.mark.parametrize(("spec", "is_right"), [("BreachBound", True), ("Diversity", False)])
def test_plan_for_another_request_is_refused_by_the_type_checker(tmp_path: Path, spec: str, is_right: bool) -> None:
    (tmp_path / "snippet.py").write_text(SNIPPET.format(spec=spec))
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache")]
    said, _, code = api.run([*settings, str(tmp_path / "snippet.py")])
    assert (code == 0) is is_right, said
    if not is_right:
        assert '"Callable[[Histogram, BreachBound' in said
        assert "snippet.py" in said
