"""docs/NAME.schema.json is made from the tables of columns, and real documents agree with it. `python3 -m mallowtest.schema NAME...` writes
them anew."""
import json
import os
import re
import subprocess
import sys

from mallowtest.places import ROOT, program

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}
KNOWN = {"type", "properties", "additionalProperties", "required", "items", "pattern", "minimum", "$ref", "$schema",
         "title", "$defs"}


def path(name):
    return os.path.join(ROOT, "docs", name + ".schema.json")


def made(name):
    return subprocess.run([program("write_schema"), name], capture_output=True, text=True, check=True).stdout


def disagreements(value, schema, whole, at="$"):
    """As a validator of the draft says them, for the keywords that schema.c writes."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    if "$ref" in schema:
        return disagreements(value, whole["$defs"][schema["$ref"].rsplit("/", 1)[1]], whole, at)
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(type(value) is TYPES[n] for n in names):
        return [f"{at}: {value!r} is no {names}"]
    found = []
    if isinstance(value, dict):
        found += [f"{at}: lacks {k}" for k in schema.get("required", []) if k not in value]
        for k, v in value.items() if "properties" in schema else []:
            if k in schema["properties"]:
                found += disagreements(v, schema["properties"][k], whole, f"{at}.{k}")
            else:
                found.append(f"{at}: {k} is not in the schema")
    elif isinstance(value, list):
        for v in value if "items" in schema else []:
            found += disagreements(v, schema["items"], whole, at + "[]")
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{at}: {value!r} has another form")
    elif type(value) is int and value < schema.get("minimum", value):
        found.append(f"{at}: {value} is below the minimum")
    return found


class Schema:
    """Beside a TestCase; NAME: of the schema."""

    def complaints(self, document):
        with open(path(self.NAME), encoding="utf-8") as f:
            schema = json.load(f)
        return disagreements(document, schema, schema)

    def agrees(self, document):
        self.assertEqual(self.complaints(document), [])

    def test_is_up_to_date(self):
        with open(path(self.NAME), encoding="utf-8") as f:
            self.assertEqual(made(self.NAME), f.read(), f"python3 -m mallowtest.schema {self.NAME}")


if __name__ == "__main__":
    for each in sys.argv[1:]:
        with open(path(each), "w", encoding="utf-8") as out:
            out.write(made(each))
