"""documents.py finds what it is there to find."""
import os
import unittest

import documents

TERMS = "".join(f"| **{t}** | means |\n" for t in documents.FIELD)


class CanFail(unittest.TestCase):
    def test_a_time_in_a_design_page(self):
        for text in ("It takes 0.02 s.", "A call costs 12 ns.", "ready after 3 seconds"):
            self.assertEqual(len(documents.design_faults("x.md", text)), 1, text)
        for text in ("At most 16,000 groups.", "a row of 5 to 43 bytes", "It has 240 slices."):
            self.assertEqual(documents.design_faults("x.md", text), [], text)

    def test_a_measurement_without_date_or_command(self):
        whole = "# M\n\n## A\n\n2026-01-02, at 12345.\n\n```sh\nmake\n```\n"
        self.assertEqual(documents.measurement_faults(whole), [])
        self.assertEqual(len(documents.measurement_faults(whole.replace("2026-01-02", "lately"))), 1)
        self.assertEqual(len(documents.measurement_faults(whole.replace("```sh", "```"))), 1)

    def test_a_path_that_does_not_exist(self):
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        whole = "`tests/house/documents.py`, `src/arch/`, `src/trace/*.c`, `tests/house/NAME.py`, `nothing/x.c`"
        self.assertEqual(documents.path_faults(root, "x.md", whole), [])
        self.assertEqual(len(documents.path_faults(root, "x.md", whole.replace("documents.py", "gone.py"))), 1)

    def test_a_name_that_is_the_end_of_no_path(self):
        sources = documents.sources_of(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
        whole = "`documents.py`, `house/documents.py`, `NAME.c`, `src/report/sections.c`"
        self.assertEqual(documents.path_faults("/", "x.md", whole.replace("`src/report/sections.c`", ""), sources), [])
        for gone in ("`gone.c`", "`attic/documents.py`", "`ouse/documents.py`"):
            self.assertEqual(documents.path_faults("/", "x.md", gone, sources), [f"x.md: there is no {gone[1:-1]}"])

    def test_a_line_that_is_too_wide(self):
        self.assertEqual(documents.width_faults("x.md", "a" * 150 + "\n| " + "b" * 200 + "\n```\n" + "c" * 200 + "\n```\n"), [])
        self.assertEqual(len(documents.width_faults("x.md", "a" * 151)), 1)

    def test_a_header_of_a_processor_that_is_not_named(self):
        text = "A second processor fills the same headers:\n`page`,\n`clock` and `entry`.\nMore `words`.\n"
        self.assertEqual(documents.processor_faults(text, {"page", "clock", "entry"}), [])
        self.assertEqual(len(documents.processor_faults(text, {"page", "clock"})), 1)
        self.assertEqual(len(documents.processor_faults(text, {"page", "clock", "entry", "rseq"})), 1)

    def test_a_term_twice_or_not_at_all(self):
        self.assertEqual(documents.glossary_faults(TERMS), [])
        self.assertEqual(len(documents.glossary_faults(TERMS + "| **peak**, top | again |\n")), 1)
        self.assertEqual(len(documents.glossary_faults(TERMS.replace("**leak**", "**drip**"))), 1)
        self.assertEqual(documents.glossary_faults(TERMS + "| **slot** (of a batch) | a |\n| **slot** (of a session) | b |\n"), [])

    def test_names_in_json(self):
        glossary = "| `a_bytes` | means |\n"
        self.assertEqual(documents.amount_faults(glossary, {"a_bytes"}, {"a_bytes"}), [])
        self.assertEqual(len(documents.amount_faults(glossary * 2, {"a_bytes"}, {"a_bytes"})), 1)
        self.assertEqual(len(documents.amount_faults(glossary, {"a_bytes", "b_calls"}, {"a_bytes", "b_calls"})), 1)
        self.assertEqual(len(documents.amount_faults(glossary, set(), {"a_bytes"})), 1)
        self.assertEqual(len(documents.amount_faults(glossary, {"a_bytes"}, set())), 1)


if __name__ == "__main__":
    unittest.main()
