"""documents.py finds what it is there to find."""
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
