"""Records as tables."""

import json
import subprocess
import sys
from pathlib import Path

from support import LONG_S, ROOT, TestCase

import weighbridge

EVERY_FIELD = ROOT / "crates/lab/record/tests/files/every-field.jsonl"
RECORDS = [EVERY_FIELD, *sorted((ROOT / "docs/figures/explain").glob("*.jsonl"))]


class Records(TestCase):
    def written(self, *lines: object, end: str = "") -> Path:
        path = self.folder() / "record.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines) + end)
        return path

    def test_every_line_of_a_record_is_a_row_and_every_field_a_column(self):
        for path in RECORDS:
            record = weighbridge.read(path)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            self.assertEqual(sum(map(len, record.values())), len(lines), path)
            self.assertEqual(record.header, lines[0])
            summaries = [line for line in lines if line["kind"] == "summary"]
            self.assertEqual([row["median"] for row in record.rows("summary")], [line["median"] for line in summaries])
            for row, line in zip(record.rows("summary"), summaries, strict=True):
                for name, value in line.get("per_op", {}).items():
                    self.assertEqual(row[f"per_op.{name}"], value)
            samples = sum(len(line["samples"]) for line in lines if line["kind"] == "run")
            self.assertEqual(len(record.samples()), samples)

    def test_the_schema_is_that_of_the_document(self):
        text = (ROOT / "docs/record.md").read_text()
        self.assertIn(f"`schema`, now {weighbridge.SCHEMA}.", text)

    def test_what_ends_early_is_a_smaller_record_and_a_second_header_ends_it(self):
        header = {"kind": "header", "schema": 2}
        record = weighbridge.read(self.written(header, {"kind": "run", "case": "a", "run": 0, "samples": [1.0]}, end='{"kind": "ru'))
        self.assertEqual((len(record["run"]), record.notes), (1, ["line 3 is cut, and was left out"]))
        record = weighbridge.read(self.written(header, header, {"kind": "run"}))
        self.assertEqual((list(record), len(record.notes)), (["header"], 1))

    def test_other_files_and_newer_schemas_are_refused_with_a_sentence(self):
        newer = {"kind": "header", "schema": 3}
        for path, why in [
            (self.written(newer), "schema 3, and this module reads 2"), (self.written({"kind": "run"}), "not with a header"),
            (self.written(), "empty"), (self.written({"kind": "header", "schema": 2}, [1], {"kind": "end"}), "line 2"),
        ]:  # fmt: skip
            self.assertRaisesRegex(ValueError, why, weighbridge.read, path)

    def test_arrow_and_pandas_have_the_same_values_if_they_are_installed(self):
        record = weighbridge.read(EVERY_FIELD)
        rows = record.rows("run")
        try:
            for kind in record:
                table = record.arrow(kind)
                self.assertEqual((table.num_rows, table.column_names), (len(record[kind]), list(record.columns(kind))))
            self.assertEqual(record.arrow("run")["value"].to_pylist(), [row["value"] for row in rows])
        except ImportError:
            print("skipped: Arrow tables, for pyarrow is not installed")
        try:
            frame = record.pandas("run")
            self.assertEqual(frame["value"].tolist(), [row["value"] for row in rows])
        except ImportError:
            print("skipped: data frames, for pandas is not installed")

    def test_importing_it_imports_neither(self):
        code = "import sys, weighbridge; sys.exit('pyarrow' in sys.modules or 'pandas' in sys.modules or 'causeway_ipc' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], timeout=LONG_S).returncode, 0)
