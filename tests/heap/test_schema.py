"""docs/heap.schema.json is made from the tables of columns, and real documents agree with it."""
import copy
import json
import os
import re
import subprocess
import sys
import unittest

from heaptest import HeapTest, tool

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/heap.schema.json")
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
KNOWN = {"type", "properties", "additionalProperties", "required", "items", "pattern", "minimum", "$ref", "$schema",
         "title", "$defs"}


def complaints(value, schema, whole, at="$"):
    """As a validator of the draft says them, for the keywords that schema.c writes."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        return complaints(value, whole["$defs"][schema["$ref"].rsplit("/", 1)[1]], whole, at)
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) is TYPES[n] for n in names):
        return [f"{at}: {value!r} is no {names}"]
    found = []
    if isinstance(value, dict):
        found += [f"{at}: lacks {k}" for k in schema.get("required", []) if k not in value]
        for k, v in value.items():
            if k in schema["properties"]:
                found += complaints(v, schema["properties"][k], whole, f"{at}.{k}")
            else:
                found.append(f"{at}: {k} is not in the schema")
    elif isinstance(value, list):
        for v in value:
            found += complaints(v, schema["items"], whole, at + "[]")
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{at}: {value!r} has another form")
    elif type(value) is int and value < schema.get("minimum", value):
        found.append(f"{at}: {value} is below the minimum")
    return found


class Schema(HeapTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(PATH, encoding="utf-8") as f:
            cls.schema = json.load(f)

    def agrees(self, document):
        self.assertEqual(complaints(document, self.schema, self.schema), [])

    def test_is_up_to_date(self):
        made = subprocess.run([tool("write_schema")], capture_output=True, text=True, check=True).stdout
        with open(PATH, encoding="utf-8") as f:
            self.assertEqual(made, f.read(), "run test_schema.py --write")

    def test_documents(self):
        p = self.start(tool("victim_leaks"), "50")
        document = self.heap_json(p.pid)
        self.agrees(document)
        leak = document["unreachable"][0]["address"]
        for way in ("--why", "--who"):
            self.agrees(self.heap_json(way, leak, p.pid))
        saved = os.path.join(self.folder, "heap.mlh")
        self.heap("-o", saved, p.pid)
        self.agrees(self.heap_json(saved))
        self.agrees(self.heap_json("--diff", saved, saved))

    def test_can_fail(self):
        document = self.heap_json(self.start(tool("victim_leaks"), "1").pid)
        for change in (lambda d: d.update(new_key=1), lambda d: d.update(pid="7"), lambda d: d["types"][0].update(x=1),
                       lambda d: d["arenas"][0].pop("main"), lambda d: d["arenas"][0].update(address="12"),
                       lambda d: d.update(blocks=-1)):
            wrong = copy.deepcopy(document)
            change(wrong)
            self.assertEqual(len(complaints(wrong, self.schema, self.schema)), 1)


if __name__ == "__main__":
    if "--write" in sys.argv:
        with open(PATH, "w", encoding="utf-8") as out:
            subprocess.run([tool("write_schema")], stdout=out, check=True)
    else:
        unittest.main()
