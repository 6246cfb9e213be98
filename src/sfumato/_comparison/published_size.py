"""How much room what is published takes: the protected column as a release has it, and the table beside it."""

from __future__ import annotations

from io import BytesIO

from sfumato._comparison.mechanism_trial import TrialTable
from sfumato._core.cell_values import find_field_type
from sfumato._parquet.parquet_writer import Encoder, FileWriter
from sfumato._perturb.record_writer import encode_row_group
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._records import Naming
from sfumato._risk.attackers.attack_setup import make_draws
from sfumato._risk.attackers.planned_exposure import draw_published_values

BATCH = 1 << 16


def measure_record_bytes(chosen: ChosenMechanism, trial_table: TrialTable) -> float:
    """Bytes a record, in Parquet as a release is written; public columns take as much under every mechanism."""
    mechanism, sensitive, sample = chosen.mechanism, trial_table.sensitive, trial_table.sample
    encoding = mechanism.make_encoding(chosen.design)
    cell = encoding.name_cell_column(sensitive.name)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive, make_draws(trial_table.seed))
    published_tables = [
        (
            encoding.make_columns(sensitive.parts, sensitive, cell),
            [encoding.make_rows(perturbed_records, sensitive.name, cell)],
        )
    ]
    contents = None if mechanism.bucket_table is None else mechanism.bucket_table.list_contents(chosen.plan)
    types = tuple(find_field_type(part.type) or "" for part in sensitive.parts)
    naming = Naming(tuple(part.name for part in sensitive.parts), sensitive.domain, types, cell)
    side = None if contents is None else encoding.make_side_table(sensitive, naming, contents)
    if side is not None:
        published_tables.append((side.columns, list(side.iter_batches(BATCH))))
    total = 0
    for columns, batches in published_tables:
        sink, encoder = BytesIO(), Encoder(columns)
        writer = FileWriter(sink, encoder.schema)
        for rows in batches:
            writer.add(encode_row_group(encoder, columns, rows))
        writer.finish()
        total += sink.tell()
    return total / sample.records
